package sqlite

import (
	"encoding/binary"
	"fmt"
	"unsafe"
)

// Vectors are stored as their components' IEEE 754 bits, little-endian, one
// after another: on nearly every machine the very bytes that lie in memory.

// component is what stored vectors are made of.
type component interface{ float32 | float64 }

var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// encode returns the stored form of v. It may alias v, so it is for reading
// only, and only while v is unchanged.
func encode[F component](v []F) []byte {
	if littleEndian {
		return bytesOf(v)
	}
	return encodePortably(v)
}

// decode reads the n components that encode made b of. The vector is new.
func decode[F component](b []byte, n int) ([]F, error) {
	var f F
	if size := int(unsafe.Sizeof(f)); len(b) != n*size {
		return nil, fmt.Errorf("vector of %d components has %d bytes instead of %d", n, len(b), n*size)
	}
	if littleEndian {
		v := make([]F, n)
		copy(bytesOf(v), b)
		return v, nil
	}
	return decodePortably[F](b, n)
}

// bytesOf returns the memory of v.
func bytesOf[F component](v []F) []byte {
	var f F
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), len(v)*int(unsafe.Sizeof(f)))
}

func encodePortably[F component](v []F) []byte {
	// Append knows the sizes of floats, so it cannot fail.
	b, _ := binary.Append(make([]byte, 0, binary.Size(v)), binary.LittleEndian, v)
	return b
}

func decodePortably[F component](b []byte, n int) ([]F, error) {
	v := make([]F, n)
	_, err := binary.Decode(b, binary.LittleEndian, v)
	return v, err
}
