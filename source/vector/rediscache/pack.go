package rediscache

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strconv"

	"keyfold/engine"
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
	packed, _ := binary.Append(make([]byte, 0, 4*len(vector)), binary.LittleEndian, vector) // fails for other types only
	return packed
}

// unpack reads what pack wrote, or nil where the value is not a usable vector of
// that many components.
func unpack(packed string, dimensions int) []float32 {
	if len(packed) != 4*dimensions {
		return nil
	}
	vector := make([]float32, dimensions)
	if _, err := binary.Decode([]byte(packed), binary.LittleEndian, vector); err != nil {
		return nil
	}
	if _, err := engine.Norm(vector); err != nil {
		return nil
	}
	return vector
}
