// Generics over types that differ in name only, trait objects, closures, callbacks, panics that unwind.
use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

static SINK: AtomicI64 = AtomicI64::new(0);
#[inline(never)]
fn leaf(x: i64) { SINK.fetch_add(x, Relaxed); }

struct Order { id: i64 }
struct Payment { id: i64 }
trait Id { fn id(&self) -> i64; fn touch(&mut self, x: i64); }
impl Id for Order {
    #[inline(never)] fn id(&self) -> i64 { leaf(self.id); self.id + 1 }
    #[inline(never)] fn touch(&mut self, x: i64) { leaf(x); self.id += x; leaf(1); }
}
impl Id for Payment {
    #[inline(never)] fn id(&self) -> i64 { leaf(self.id); self.id + 1 }
    #[inline(never)] fn touch(&mut self, x: i64) { leaf(x); self.id += x; leaf(1); }
}
struct Pool<T> { items: Vec<Box<T>>, seen: BTreeMap<i64, i64> }
impl<T: Id> Pool<T> {
    #[inline(never)] fn add(&mut self, item: T) { leaf(1); let id = item.id(); self.items.push(Box::new(item)); self.note(id); leaf(2); }
    #[inline(never)] fn note(&mut self, id: i64) { *self.seen.entry(id).or_insert(0) += 1; leaf(3); }
    #[inline(never)] fn each<F: FnMut(&mut T)>(&mut self, mut f: F) { for item in &mut self.items { f(item); } leaf(4); }
    #[inline(never)] fn sum(&self) -> i64 { let mut total = 0; for item in &self.items { total += item.id(); } leaf(total); total }
    #[inline(never)] fn sort(&mut self) { self.items.sort_by(|a, b| { leaf(5); b.id().cmp(&a.id()) }); }
    #[inline(never)] fn check(&self, at: usize) -> i64 { leaf(6); self.items[at].id() }
}
impl<T> Drop for Pool<T> {
    #[inline(never)] fn drop(&mut self) { leaf(7); self.items.clear(); leaf(8); }
}
#[inline(never)]
fn dynamic(item: &mut dyn Id) { item.touch(2); leaf(item.id()); }
#[inline(never)]
fn dynamic_last(item: &mut dyn Id) { leaf(9); item.touch(3) }
#[inline(never)]
fn boxed(f: &dyn Fn(i64) -> i64) { let r = f(4); leaf(r); }
#[inline(never)]
fn pointed(f: fn(i64) -> i64) { let r = f(5); leaf(r); }
#[inline(never)] fn one(x: i64) -> i64 { leaf(x); x + 1 }
#[inline(never)] fn two(x: i64) -> i64 { leaf(x); x + 1 }

#[inline(never)]
fn orders() -> i64 {
    let mut pool = Pool { items: Vec::new(), seen: BTreeMap::new() };
    for id in 0..4 { pool.add(Order { id }); }
    pool.each(|item| item.touch(1)); pool.sort(); leaf(pool.check(1)); pool.sum()
}
#[inline(never)]
fn payments() -> i64 {
    let mut pool = Pool { items: Vec::new(), seen: BTreeMap::new() };
    for id in 0..4 { pool.add(Payment { id }); }
    pool.each(|item| item.touch(1)); pool.sort(); leaf(pool.check(1)); pool.sum()
}
fn main() {
    std::panic::set_hook(Box::new(|_| leaf(10)));
    leaf(orders()); leaf(payments());
    let mut order = Order { id: 1 };
    let mut payment = Payment { id: 2 };
    for item in [&mut order as &mut dyn Id, &mut payment as &mut dyn Id] { dynamic(black_box(item)); dynamic_last(item); leaf(11); }
    let base = SINK.load(Relaxed) & 1;
    boxed(black_box(&|x| { leaf(x); x + base })); boxed(black_box(&move |x| { leaf(x); x + base }));
    pointed(black_box(one)); pointed(black_box(two));
    let failed = std::panic::catch_unwind(|| { let pool: Pool<Order> = Pool { items: Vec::new(), seen: BTreeMap::new() }; pool.check(black_box(3)) });
    leaf(failed.is_err() as i64);
    let failed = std::panic::catch_unwind(|| { let pool: Pool<Payment> = Pool { items: Vec::new(), seen: BTreeMap::new() }; pool.check(black_box(3)) });
    leaf(failed.is_err() as i64);
}
