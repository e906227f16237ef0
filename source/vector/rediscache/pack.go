package rediscache

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"strconv"
)

// prefix is what all keys of a model's vectors begin with.
func prefix(model string, dimensions int) string {
	return "embeddings:search:" + model + ":" + strconv.Itoa(dimensions) + ":"
}

func (c *Cache) key(phrase string) string {
	sum := sha256.Sum256([]byte(phrase))
	return c.prefix + hex.EncodeToString(sum[:])
}

// pack writes components as little-endian float32.
func pack(vector []float32) []byte {
	packed := make([]byte, 4*len(vector))
	for i, c := range vector {
		binary.LittleEndian.PutUint32(packed[4*i:], math.Float32bits(c))
	}
	return packed
}

// unpack reads what pack wrote, or nil where the value is not a usable vector of
// that many components.
func unpack(packed string, dimensions int) []float32 {
	if len(packed) != 4*dimensions {
		return nil
	}
	vector := make([]float32, dimensions)
	var sum float64
	for i := range vector {
		at := packed[4*i : 4*i+4]
		bits := uint32(at[0]) | uint32(at[1])<<8 | uint32(at[2])<<16 | uint32(at[3])<<24
		vector[i] = math.Float32frombits(bits)
		sum += float64(vector[i]) * float64(vector[i])
	}
	if sum == 0 || math.IsNaN(sum) || math.IsInf(sum, 0) {
		return nil
	}
	return vector
}
