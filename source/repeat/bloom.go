package repeat

import (
	"crypto/sha256"
	_ "embed" // the script
	"encoding/binary"
	"maps"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

const (
	hashes     = 11 // bits of an event, all in one block
	blockBytes = 64 // 512 bits
	bloomKey   = "npe:{bloom}"
)

//go:embed bloom.lua
var bloomText string

// bloomAdd sets bits, counts and rotates.
var bloomAdd = redis.NewScript(bloomText)

// spot is where the bits of an event are: a hash that names the block, and bits of the block.
type spot struct {
	block uint32
	bits  [hashes]uint16
}

// spotOf derives the spot from a hash: event_ids may be made in sequence.
func spotOf(id uuid.UUID) (s spot) {
	sum := sha256.Sum256(id[:])
	s.block = binary.BigEndian.Uint32(sum[:])
	for i := range s.bits {
		s.bits[i] = binary.BigEndian.Uint16(sum[4+2*i:]) % (blockBytes * 8)
	}
	return s
}

// in reports whether all bits of an event are set in its block.
func (s spot) in(block string) bool {
	for _, bit := range s.bits {
		if block[bit/8]&(0x80>>(bit%8)) == 0 {
			return false
		}
	}
	return true
}

// append adds the spot to a script's arguments.
func (s spot) append(args []any) []any {
	args = append(args, s.block)
	for _, bit := range s.bits {
		args = append(args, bit)
	}
	return args
}

// generations is what the hash says: blocks by generation, and the newest one's fill.
type generations struct {
	blocks map[string]uint32
	fill   float64
}

func readGenerations(fields map[string]string) generations {
	g := generations{blocks: map[string]uint32{}}
	for field, value := range fields {
		if name, ok := strings.CutPrefix(field, "blocks:"); ok {
			if n, err := strconv.ParseUint(value, 10, 32); err == nil && n > 0 {
				g.blocks[name] = uint32(n)
			}
		}
	}
	items, _ := strconv.ParseFloat(fields["items:"+fields["current"]], 64)
	if capacity, _ := strconv.ParseFloat(fields["capacity:"+fields["current"]], 64); capacity > 0 {
		g.fill = items / capacity
	}
	return g
}

func (g generations) same(other generations) bool { return maps.Equal(g.blocks, other.blocks) }
