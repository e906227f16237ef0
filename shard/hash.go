package shard

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

// HashInt32 spreads integer keys with xxHash64 of their 4 little-endian bytes.
func HashInt32(key int32) uint64 {
	var b [4]byte
	binary.LittleEndian.PutUint32(b[:], uint32(key))
	return xxhash.Sum64(b[:])
}

// HashString spreads string keys with xxHash64 of their bytes.
func HashString(key string) uint64 { return xxhash.Sum64String(key) }
