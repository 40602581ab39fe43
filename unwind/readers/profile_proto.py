"""The messages of a pprof profile: github.com/google/pprof, proto/profile.proto.

The classes are made when this module is imported, from the definition below. Code that protoc generates would have to
fit the version of the protobuf library that is installed; this fits each. It differs from the original in one type:
strings are `bytes` here, as the library refuses a whole profile for one name that is not UTF-8, and pprof does not.
"""

from __future__ import annotations

import re

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

_PACKAGE = "perftools.profiles"
_DEFINITION = """
message Profile {
  repeated ValueType sample_type = 1;
  repeated Sample sample = 2;
  repeated Mapping mapping = 3;
  repeated Location location = 4;
  repeated Function function = 5;
  repeated bytes string_table = 6;
  int64 drop_frames = 7;
  int64 keep_frames = 8;
  int64 time_nanos = 9;
  int64 duration_nanos = 10;
  ValueType period_type = 11;
  int64 period = 12;
  repeated int64 comment = 13;
  int64 default_sample_type = 14;
  int64 doc_url = 15;
}
message ValueType {
  int64 type = 1;
  int64 unit = 2;
}
message Sample {
  repeated uint64 location_id = 1;
  repeated int64 value = 2;
  repeated Label label = 3;
}
message Label {
  int64 key = 1;
  int64 str = 2;
  int64 num = 3;
  int64 num_unit = 4;
}
message Mapping {
  uint64 id = 1;
  uint64 memory_start = 2;
  uint64 memory_limit = 3;
  uint64 file_offset = 4;
  int64 filename = 5;
  int64 build_id = 6;
  bool has_functions = 7;
  bool has_filenames = 8;
  bool has_line_numbers = 9;
  bool has_inline_frames = 10;
}
message Location {
  uint64 id = 1;
  uint64 mapping_id = 2;
  uint64 address = 3;
  repeated Line line = 4;
  bool is_folded = 5;
}
message Line {
  uint64 function_id = 1;
  int64 line = 2;
  int64 column = 3;
}
message Function {
  uint64 id = 1;
  int64 name = 2;
  int64 system_name = 3;
  int64 filename = 4;
  int64 start_line = 5;
}
"""
_MESSAGE = re.compile(r"message (\w+) \{(.*?)\}", re.DOTALL)
_FIELD = re.compile(r"(repeated )?(\w+) (\w+) = (\d+);")
_SCALARS = {
    "int64": FieldDescriptorProto.TYPE_INT64,
    "uint64": FieldDescriptorProto.TYPE_UINT64,
    "bool": FieldDescriptorProto.TYPE_BOOL,
    "bytes": FieldDescriptorProto.TYPE_BYTES,
}


def _pool() -> DescriptorPool:
    file = FileDescriptorProto(name="profile.proto", package=_PACKAGE, syntax="proto3")
    for name, body in _MESSAGE.findall(_DEFINITION):
        message = file.message_type.add(name=name)
        for repeated, kind, field_name, number in _FIELD.findall(body):
            label = FieldDescriptorProto.LABEL_REPEATED if repeated else FieldDescriptorProto.LABEL_OPTIONAL
            field = message.field.add(name=field_name, number=int(number), label=label)
            field.type = _SCALARS.get(kind, FieldDescriptorProto.TYPE_MESSAGE)
            if kind not in _SCALARS:
                field.type_name = f".{_PACKAGE}.{kind}"
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return pool


_POOL = _pool()
Profile, Sample, Location, Line, Mapping, Function = (
    GetMessageClass(_POOL.FindMessageTypeByName(f"{_PACKAGE}.{name}"))
    for name in ("Profile", "Sample", "Location", "Line", "Mapping", "Function")
)
