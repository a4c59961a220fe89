// Numbers of bfloat16 as bits, in the words of both devices.

INLINE float low_half(uint bits) { return BITS_FLOAT(bits << 16); }
INLINE float high_half(uint bits) { return BITS_FLOAT(bits & 0xffff0000u); }
INLINE float widened(ushort bits) { return BITS_FLOAT((uint)bits << 16); }
