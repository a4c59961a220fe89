// The Python module: each kernel as a primitive of MLX, evaluated in its lazy graph.
#include "primitive.h"

#include <string>

using namespace nightingale;

NB_MODULE(_native, m) {
  m.def("instructions", [] { return std::string(kernels().name); });
  m.def("threads", &pool_size);
  m.def("resize_pool", &resize_pool);
  bind_decoder(m);
  bind_layers(m);
  bind_vocoder(m);
  bind_transformer(m);
  bind_unet(m);
}
