#!/bin/sh
# Writes the reports of this folder again: sh build.sh OUTPUT_FOLDER
# They were made by gcc 12.2, GNU gold 1.16 (binutils 2.40), LLD 19.1.7 and mold 1.10.1 on x86-64.
set -eu
source=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
cd "$1"
for unit in main left right shapes; do
    g++ -O1 -ffunction-sections -c "$source/$unit.cpp" -o "$unit.o"
done
rm -f libshapes.a libthin.a
ar rc libshapes.a shapes.o left.o
ar rcT libthin.a right.o
# no start files and no libraries: their paths differ from machine to machine
link="-e main --unresolved-symbols=ignore-all --icf=all --print-icf-sections main.o libshapes.a libthin.a"
ld.gold $link -o program.gold 2>gold.txt
ld.lld-19 $link -o program.lld >lld.txt
mold $link -o program.mold >mold.txt
