"""Virtual calls on objects of a declared class: which functions they enter, and where a declaration proves nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.e2e.program import Program
from tests.e2e.workshop import GOLD, LLD, LLD_ALONE, Workshop

OPEN = {"ambiguous", "narrowed"}
UNIQUE = {"unique"}
typed_toolchains = pytest.mark.parametrize("toolchain", [GOLD, LLD], ids=str, indirect=True)
HEADER = """
    extern int total __attribute__((visibility("hidden")));
    struct Big { long words[6]; };
    struct Shape { int x = 3; virtual void draw(int n); virtual void fill(int n); virtual void outline(int n);
                   virtual Big measure(); virtual Big half(); };
    struct Sound { int x = 3; virtual void play(int n); virtual void stop(int n); virtual void repeat(int n);
                   virtual Big length(); virtual Big rest(); };
    struct Circle : Shape { void draw(int n) override; void outline(int n) override; Big measure() override;
                            Big half() override; };
    struct Note : Sound { void play(int n) override; void repeat(int n) override; Big length() override;
                          Big rest() override; };
    // other bodies, so that no call is made for the one class that there is
    struct Square : Shape { void draw(int) override { total += 3; } };
    struct Drum : Sound { void play(int) override { total += 4; } };
"""
FUNCTIONS = """
    int total;
    void Shape::draw(int) {} void Shape::fill(int) {} void Shape::outline(int) {}
    void Sound::play(int) {} void Sound::stop(int) {} void Sound::repeat(int) {}
    Big Shape::measure() { return {}; } Big Sound::length() { return {}; }
    Big Shape::half() { return {}; } Big Sound::rest() { return {}; }
    void Circle::draw(int n) { SAMPLE_OBJECT(); total += n; }
    void Note::play(int n) { SAMPLE_OBJECT(); total += n; }
    void Circle::outline(int n) { x += 1; draw(n); }
    void Note::repeat(int n) { x += 1; play(n); }
    Big Circle::measure() { SAMPLE(); return {{x, 2, 3, 4, 5, 6}}; }
    Big Note::length() { SAMPLE(); return {{x, 2, 3, 4, 5, 6}}; }
    Big Circle::half() { return measure(); }
    Big Note::rest() { return length(); }
"""


@typed_toolchains
def test_the_class_of_a_parameter_or_a_field_tells_functions_of_one_slot_apart(workshop: Workshop) -> None:
    """Some of the calls are jumps, and stand for several functions whose objects are of different classes."""
    program = workshop.build_with_tables(
        f"""
        {HEADER} {FUNCTIONS}
        struct Picture {{ int n = 2; Shape *shape; }};
        struct Song {{ int n = 2; Sound *sound; }};
        NOINLINE void show(Shape &s) {{ s.draw(1); ++total; }}
        NOINLINE void hear(int n, Sound *s) {{ s->play(n); total += 2; }}
        NOINLINE void by_field(Picture &p) {{ p.shape->draw(2); total += 3; }}
        NOINLINE void by_other_field(Song &p) {{ p.sound->play(2); total += 4; }}
        NOINLINE void show_outline(Shape &s) {{ s.outline(2); total += 5; }}
        NOINLINE void repeat(Sound &s) {{ s.repeat(2); total += 5; }}
        NOINLINE void measure(Shape &s) {{ total += s.half().words[0]; }}
        NOINLINE void listen(Sound &s) {{ total += s.rest().words[0] + 1; }}
        int main() {{
            Circle c; Note n; Square s; Drum d;
            show(s); hear(1, &d);
            show(c); hear(1, &n);
            Picture picture; picture.shape = &c; by_field(picture);
            Song song; song.sound = &n; by_other_field(song);
            show_outline(c); repeat(n); measure(c); listen(n);
            return total == 77;
        }}
        """,
        ["-fno-devirtualize-speculatively"] if workshop.toolchain.compiler == "gcc" else [],
    )
    verdicts = program.check()
    for name in ("_ZN6Circle4drawEi", "_ZN4Note4playEi", "_ZN6Circle7measureEv", "_ZN4Note6lengthEv"):
        assert verdicts[name] == UNIQUE, name
    program.check(with_vptrs=True)


@typed_toolchains
def test_a_declaration_that_proves_nothing(workshop: Workshop) -> None:
    """Unions, `void *`, parameters that the compiler drops, an object that another one has taken the place of, bases
    that lie elsewhere in the object."""
    program = workshop.build_with_tables(
        f"""
            #include <new>
            {HEADER} {FUNCTIONS}
            struct Either {{ union {{ Shape *shape; Sound *sound; }}; }};
            struct Both : Shape, Sound {{ void draw(int n) override; void play(int n) override; }};
            struct Left : virtual Shape {{ int left = 1; }};
            struct Right : virtual Shape {{ int right = 1; void draw(int n) override; }};
            struct Whole : Left, Right {{ int whole = 1; }};
            struct Copied : Shape {{ virtual Shape *clone() {{ return new Copied(*this); }} }};
            struct Twice : Sound, Copied {{ Twice *clone() override; void play(int n) override; }};
            void Both::draw(int n) {{ SAMPLE(); total += n + 7; }}
            void Both::play(int n) {{ SAMPLE(); total += n + 7; }}
            void Right::draw(int n) {{ SAMPLE(); total += n + 8; }}
            Twice *Twice::clone() {{ SAMPLE(); return new Twice(*this); }}
            void Twice::play(int n) {{ SAMPLE(); total += n + 8; }}
            NOINLINE void shape_of(Either &e) {{ e.shape->draw(1); ++total; }}
            NOINLINE void sound_of(Either &e) {{ e.sound->play(1); total += 2; }}
            NOINLINE void any_shape(void *p) {{ static_cast<Shape *>(p)->draw(2); total += 3; }}
            NOINLINE void any_sound(void *p) {{ static_cast<Sound *>(p)->play(2); total += 4; }}
            NOINLINE static void second(Shape *, Sound *s) {{ s->play(3); total += 5; }}
            NOINLINE static void third(Sound *, Shape *s) {{ s->draw(3); total += 6; }}
            NOINLINE void turn(Shape *s) {{ s->~Shape(); new (s) Square; }}
            NOINLINE void again(Shape *s) {{ s->draw(1); turn(s); s->draw(2); total += 7; }}
            NOINLINE void show(Shape &s) {{ s.draw(1); total += 8; }}
            NOINLINE void hear(Sound &s) {{ s.play(1); total += 9; }}
            NOINLINE Shape *copy(Copied &c) {{ Shape *s = c.clone(); total += 10; return s; }}
            int main() {{
                Circle c; Note n; Both b; Whole w; Twice t; Square s; Drum d;
                Either e; e.shape = &c; shape_of(e); e.sound = &n; sound_of(e);
                any_shape(&c); any_sound(&n); second(&c, &n); third(&n, &c); second(&c, &d); third(&n, &s);
                show(b); hear(b); show(w); hear(t); show(*copy(t)); hear(n); show(c);
                again(&c);
                return total == 77;
            }}
        """
    )
    verdicts = program.check()
    assert verdicts["_ZN6Circle4drawEi"] != UNIQUE  # through the union
    program.check(with_vptrs=True)


@pytest.mark.parametrize("toolchain", [LLD], ids=str, indirect=True)
def test_classes_of_equal_names_in_two_files_count_as_one(workshop: Workshop) -> None:
    local = """
        namespace {
        struct Local { int x = 3; virtual void act(int n); virtual void more(int n); };
        struct NAME : Local { void act(int n) override; };
        struct Quiet : Local { void act(int) override { total += 5; } };
        void Local::act(int) {} void Local::more(int) {}
        void NAME::act(int n) { SAMPLE(); total += n + 1; }
        NOINLINE void act_on(Local &l) { l.act(1); total += STEP; }
        }
        void UNIT() { NAME l; Quiet q; act_on(l); act_on(q); }
    """
    program = workshop.build_with_tables(
        {
            "main.cpp": "int total; void one(); void two(); int main() { one(); two(); return total == 77; }",
            "one.cpp": "extern int total;\n#define NAME Loud\n#define UNIT one\n#define STEP 1\n" + local,
            "two.cpp": "extern int total;\n#define NAME Soft\n#define UNIT two\n#define STEP 2\n" + local,
        }
    )
    assert program.check()["_ZN12_GLOBAL__N_14Loud3actEi"] <= OPEN


@pytest.mark.parametrize("toolchain", [LLD_ALONE], ids=str, indirect=True)
@pytest.mark.parametrize("flags", [["-g0"], ["-fno-rtti"]], ids=str)
def test_a_unit_without_debug_information_or_rtti_may_derive_from_the_class(
    workshop: Workshop, flags: list[str]
) -> None:
    main = f"""
        {HEADER} {FUNCTIONS}
        Shape *hidden();
        NOINLINE void show(Shape &s) {{ s.draw(1); ++total; }}
        int main() {{ Circle c; Note n; Square s; show(c); show(s); show(*hidden()); n.play(2); return total == 77; }}
    """
    other = f"""
        {HEADER}
        struct Hidden : Shape {{ void draw(int n) override; }};
        void Hidden::draw(int n) {{ SAMPLE_OBJECT(); total += n; }}
        Shape *hidden() {{ return new Hidden; }}
    """
    objects = [*workshop.compile({"main.cpp": main}), *workshop.compile({"other.cpp": other}, *flags)]
    objects.append(workshop.sampler())
    (folded, report), (unfolded, _) = (workshop.link(f"program.{kind}", objects, kind) for kind in ("all", "none"))
    program = Program(folded, unfolded, report)
    program.add_tables()
    assert program.check()["_ZN6Hidden4drawEi"] <= OPEN


@pytest.mark.parametrize("toolchain", [LLD_ALONE], ids=str, indirect=True)
def test_a_program_that_loads_others_does_not_know_all_classes(workshop: Workshop) -> None:
    program = workshop.build_with_tables(
        f"""
        #include <dlfcn.h>
        {HEADER} {FUNCTIONS}
        NOINLINE void show(Shape &s) {{ s.draw(1); ++total; }}
        NOINLINE void hear(Sound &s) {{ s.play(1); total += 2; }}
        int main(int argc, char **argv) {{
            if (argc > 5) dlopen(argv[5], RTLD_NOW);
            Circle c; Note n; Square s; Drum d; show(c); hear(n); show(s); hear(d);
            return total == 77;
        }}
        """
    )
    assert program.check()["_ZN6Circle4drawEi"] <= OPEN


@typed_toolchains
def test_the_class_of_a_variable_that_holds_the_object(workshop: Workshop) -> None:
    """In a loop, after a call, in an inlined method, with the object inside of what the variable points to."""
    program = workshop.build_with_tables(
        f"""
        #include <vector>
        {HEADER} {FUNCTIONS}
        static Shape *any_shape(Shape *one, Shape *other, int n) {{ return n ? one : other; }}
        NOINLINE void each(const std::vector<Shape *> &all) {{ for (Shape *s : all) {{ s->draw(1); ++total; }} }}
        NOINLINE void every(const std::vector<Sound *> &all) {{ for (Sound *s : all) {{ s->play(1); total += 2; }} }}
        int main(int argc, char **) {{
            Circle c; Note n; Square s; Drum d;
            each({{&c, &s}}); every({{&n, &d}});
            Shape *one = any_shape(&c, &s, argc);
            return total == 77 + one->x;
        }}
        """,
        ["-fno-devirtualize-speculatively"] if workshop.toolchain.compiler == "gcc" else [],
    )
    verdicts = program.check()
    for name in ("_ZN6Circle4drawEi", "_ZN4Note4playEi"):
        assert verdicts[name] == UNIQUE, name
    program.check(with_vptrs=True)


@typed_toolchains
def test_variables_that_prove_nothing(workshop: Workshop) -> None:
    """Two of different classes in one register, one in another block, one that has got another value, `void *`."""
    program = workshop.build_with_tables(
        f"""
        {HEADER} {FUNCTIONS}
        struct Both : Shape, Sound {{ void draw(int n) override; void play(int n) override; }};
        void Both::draw(int n) {{ SAMPLE(); total += n + 7; }}
        void Both::play(int n) {{ SAMPLE(); total += n + 7; }}
        NOINLINE void keep(const void *p) {{ total += p != nullptr; asm volatile("" ::: "memory"); }}
        NOINLINE void disguised(Sound **all) {{
            for (int i = 0; i < 2; ++i) {{
                Sound *sound = all[i]; Shape *other = reinterpret_cast<Shape *>(sound);
                sound->play(1); keep(other); total += 3;
            }}
        }}
        NOINLINE void hidden(void **all) {{
            for (int i = 0; i < 2; ++i) {{
                {{ Shape *gone = static_cast<Shape *>(all[i]); keep(gone); }}
                reinterpret_cast<Sound *>(all[i + 2])->play(2); total += 4;
            }}
        }}
        NOINLINE void changed(Shape **shapes, Sound **sounds) {{
            for (int i = 0; i < 2; ++i) {{
                void *p = shapes[i]; static_cast<Shape *>(p)->draw(1); total += 5;
                p = sounds[i]; static_cast<Sound *>(p)->play(1); total += 6;
            }}
        }}
        NOINLINE void second_base(Both **all) {{
            for (int i = 0; i < 2; ++i) {{ Both *b = all[i]; b->play(1); total += 7; b->draw(1); total += 8; }}
        }}
        struct More : Both {{ void draw(int) override {{ total += 9; }} void play(int) override {{ total += 8; }} }};
        int main() {{
            Circle c; Note n; Square s; Drum d; Both b; More m;
            Sound *sounds[] = {{&n, &d}}; Shape *shapes[] = {{&c, &s}}; Both *both[] = {{&b, &m}};
            void *all[] = {{&c, &s, &n, &d}};
            disguised(sounds); hidden(all); changed(shapes, sounds); second_base(both);
            return total == 77;
        }}
        """
    )
    program.check()
    program.check(with_vptrs=True)


@pytest.mark.parametrize("toolchain", [replace(LLD_ALONE, compiler="gcc")], ids=str, indirect=True)
def test_a_location_list_whose_start_the_linker_overwrote_says_nothing(workshop: Workshop) -> None:
    """gcc counts from the first entry of the list, so the sound of the second block is not the object of the first."""
    program = workshop.build_with_tables(
        f"""
        {HEADER} {FUNCTIONS}
        NOINLINE void *pick(void *p) {{ asm volatile("" : "+r"(p)); return p; }}
        NOINLINE void kept(void *p, void *q) {{
            static_cast<Shape *>(p)->draw(1); static_cast<Shape *>(p)->draw(2);
            {{ Shape *s = static_cast<Shape *>(pick(q)); s->draw(1); s->draw(2); total += 2; }}
        }}
        NOINLINE void folded(void *p, void *q) {{
            static_cast<Shape *>(p)->draw(1); static_cast<Shape *>(p)->draw(2);
            {{ Sound *s = static_cast<Sound *>(pick(q)); s->play(1); s->play(2); total += 2; }}
        }}
        int main() {{
            Circle c; Note n; Square s; Drum d;
            kept(&c, &c); folded(&c, &n); kept(&s, &s); folded(&s, &d);
            return total == 77;
        }}
        """,
        ["-fno-devirtualize-speculatively"],
    )
    program.check()


@pytest.mark.parametrize("toolchain", [replace(LLD_ALONE, compiler="gcc"), LLD], ids=str, indirect=True)
def test_the_class_of_the_elements_of_an_array_of_pointers(workshop: Workshop) -> None:
    """The linker left no location list of the folded loops: what the vectors hold tells their objects."""
    program = workshop.build_with_tables(
        f"""
        #include <memory>
        #include <vector>
        {HEADER} {FUNCTIONS}
        using Shapes = std::vector<std::unique_ptr<Shape>>; using Sounds = std::vector<std::unique_ptr<Sound>>;
        NOINLINE void own(const Shapes &all) {{ for (auto &s : all) {{ s->draw(1); total += 3; }} }}
        NOINLINE void have(const Sounds &all) {{ for (auto &s : all) {{ s->play(1); total += 3; }} }}
        NOINLINE void show(const std::vector<Shape *> &all) {{ for (Shape *s : all) {{ s->draw(1); ++total; }} }}
        NOINLINE void hear(const std::vector<Sound *> &all) {{ for (Sound *s : all) {{ s->play(1); ++total; }} }}
        NOINLINE void some(Shape **all, long n) {{ for (long i = 0; i < n; ++i) {{ all[i]->draw(1); total += 2; }} }}
        NOINLINE void many(Sound **all, long n) {{ for (long i = 0; i < n; ++i) {{ all[i]->play(1); total += 2; }} }}
        int main() {{
            Circle c; Note n; Square s; Drum d;
            Shape *shapes[] = {{&c, &s}}; Sound *sounds[] = {{&n, &d}};
            show({{&c, &s}}); hear({{&n, &d}}); some(shapes, 2); many(sounds, 2);
            Shapes own_shapes; Sounds own_sounds;
            for (Shape *each : shapes) own_shapes.emplace_back(each);
            for (Sound *each : sounds) own_sounds.emplace_back(each);
            own(own_shapes); have(own_sounds);
            for (auto &each : own_shapes) each.release();
            for (auto &each : own_sounds) each.release();
            return total == 77;
        }}
        """,
        ["-fno-devirtualize-speculatively"] if workshop.toolchain.compiler == "gcc" else [],
    )
    verdicts = program.check()
    for name in ("_ZN6Circle4drawEi", "_ZN4Note4playEi"):
        assert verdicts[name] == UNIQUE, name


@pytest.mark.parametrize("toolchain", [replace(LLD_ALONE, compiler="gcc"), LLD], ids=str, indirect=True)
def test_arrays_whose_elements_prove_nothing(workshop: Workshop) -> None:
    """Of pairs, of `void *`, of a class that starts with a pointer, and a pointer that goes to one array or another;
    in a class derived from what a declaration says, which is a pointer."""
    program = workshop.build_with_tables(
        f"""
        {HEADER} {FUNCTIONS}
        struct Pair {{ Shape *shape; Sound *sound; }};
        struct Row {{ Shape *first; Sound *rest[3]; }};
        struct First {{ Shape *first; }};
        struct Longer : First {{ Sound *rest[3]; }};
        union Either {{ Shape *shape; Sound *sound; }};
        NOINLINE void unions(Either *all, long n) {{
            for (long i = 0; i < n; i += 2) {{ all[i].shape->draw(1); all[i + 1].sound->play(2); total += 6; }}
        }}
        NOINLINE void pairs(Pair *all, long n) {{
            for (long i = 0; i < n; ++i) {{ all[i].sound->play(1); all[i].shape->draw(2); total += 2; }}
        }}
        NOINLINE void anything(void **all, long n) {{
            for (long i = 0; i < n; i += 2) {{
                static_cast<Shape *>(all[i])->draw(1); static_cast<Sound *>(all[i + 1])->play(2); total += 3;
            }}
        }}
        NOINLINE void row(Row *r) {{ for (Sound *s : r->rest) {{ s->play(1); total += 4; }} r->first->draw(1); }}
        NOINLINE void rest(First *f, long n) {{
            for (long i = 0; i < n; ++i) {{ static_cast<Longer *>(f)->rest[i]->play(1); total += 7; }}
        }}
        NOINLINE void either(Shape **shapes, Sound **sounds, long n) {{
            void **at = n & 1 ? reinterpret_cast<void **>(shapes) : reinterpret_cast<void **>(sounds);
            for (long i = 0; i < n; ++i) {{
                if (n & 1) static_cast<Shape *>(at[i])->draw(1); else static_cast<Sound *>(at[i])->play(1);
                total += 5;
            }}
        }}
        int main() {{
            Circle c; Note n; Square s; Drum d;
            Shape *shapes[] = {{&c, &s, &c}}; Sound *sounds[] = {{&n, &d}}; void *all[] = {{&c, &n, &s, &d}};
            Pair some[] = {{{{&c, &n}}, {{&s, &d}}}}; Row r = {{&c, {{&n, &d, &n}}}};
            pairs(some, 2); anything(all, 4); row(&r); either(shapes, sounds, 3); either(shapes, sounds, 2);
            Either mixed[4]; mixed[0].shape = &c; mixed[1].sound = &n; mixed[2].shape = &s; mixed[3].sound = &d;
            unions(mixed, 4);
            Longer longer = {{{{&c}}, {{&n, &d, &n}}}}; rest(&longer, 3);
            return total == 77;
        }}
        """
    )
    program.check()
