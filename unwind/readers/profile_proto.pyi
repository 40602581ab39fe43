from google.protobuf.internal.containers import RepeatedCompositeFieldContainer as Messages
from google.protobuf.internal.containers import RepeatedScalarFieldContainer as Scalars
from google.protobuf.message import Message

class ValueType(Message):
    type: int
    unit: int

class Label(Message):
    key: int
    str: int
    num: int
    num_unit: int

class Sample(Message):
    location_id: Scalars[int]
    value: Scalars[int]
    label: Messages[Label]

class Mapping(Message):
    id: int
    memory_start: int
    memory_limit: int
    file_offset: int
    filename: int
    build_id: int
    has_functions: bool
    has_filenames: bool
    has_line_numbers: bool
    has_inline_frames: bool

class Line(Message):
    function_id: int
    line: int
    column: int

class Location(Message):
    id: int
    mapping_id: int
    address: int
    line: Messages[Line]
    is_folded: bool

class Function(Message):
    id: int
    name: int
    system_name: int
    filename: int
    start_line: int

class Profile(Message):
    sample_type: Messages[ValueType]
    sample: Messages[Sample]
    mapping: Messages[Mapping]
    location: Messages[Location]
    function: Messages[Function]
    string_table: Scalars[bytes]
    drop_frames: int
    keep_frames: int
    time_nanos: int
    duration_nanos: int
    period_type: ValueType
    period: int
    comment: Scalars[int]
    default_sample_type: int
    doc_url: int
