struct Shape {
  virtual ~Shape();
  virtual int area(int) const;
  virtual int edge(int) const;
};
template <class T> __attribute__((noinline)) T twice(T *p) { return p[0] + p[1]; }
