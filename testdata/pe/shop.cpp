
extern "C" {
extern void* const type_info_vftable __asm__("??_7type_info@@6B@");
void* const type_info_vftable = 0;
int _fltused = 0;
void _purecall() {}
#pragma function(memset)
void* memset(void* to, int byte, unsigned long long count) {
    volatile char* at = (char*)to;
    while (count--) *at++ = (char)byte;
    return to;
}
}
void operator delete(void*, unsigned long long) {}
void operator delete(void*) {}

volatile int total;
#define KEEP __attribute__((noinline))
KEEP void count(int value) { total = total + value; }
struct Order { int id; };
struct Payment { int id; };
static inline int scaled(int value) {
    count(value);
    return value * 3 + 1;
}
template <class T> struct List {
    T* items;
    int size;
    KEEP int add(T* item) {
        size += scaled(item->id);
        return size;
    }
};
KEEP int discount(int value) { count(value); count(value + 1); return value; }
KEEP unsigned discount(unsigned value) { count(value); count(value + 1); return value; }
static KEEP int rebate(int value) { count(value); count(value + 1); return value; }
namespace sales { KEEP int tax(int value) { count(value * 7); return 1; } }
namespace costs { KEEP int tax(int value) { count(value * 7); return 1; } }
struct Item { virtual int price(int); virtual int stock(int); virtual ~Item(); };
int Item::price(int value) { count(value); return value; }
int Item::stock(int value) { count(value + 3); return 4; }
Item::~Item() {}
struct Book : Item { int price(int) override; };
struct Game : Item { int price(int) override; };
int Book::price(int value) { count(value + 100); return 2; }
int Game::price(int value) { count(value + 100); return 2; }
KEEP int orders(List<Order>* list, Order* order) { return list->add(order) + discount(list->size) + sales::tax(1); }
KEEP int payments(List<Payment>* list, Payment* payment) {
    return list->add(payment) + discount((unsigned)list->size) + costs::tax(2);
}
Item* volatile picked;
extern "C" int mainCRTStartup() {
    List<Order> some{0, 0};
    List<Payment> more{0, 0};
    Order order{1};
    Payment payment{2};
    Book book;
    Game game;
    picked = &book;
    int sum = orders(&some, &order) + payments(&more, &payment) + rebate(4) + picked->price(3);
    picked = &game;
    return sum + picked->price(2) + picked->stock(5);
}
