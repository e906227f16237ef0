package index

import (
	"math"
	"math/bits"
	"math/rand/v2"
)

// minBits is how many bits a code has at least: fewer do not tell vectors apart.
const minBits = 1024

// coder makes codes: vectors are turned by a random rotation, the same for all, and of each
// component the code has the sign, one bit. The angle between two vectors is about the share
// of bits in which their codes differ, times pi; the error is that of so many coin tosses
// (Charikar, 2002). Without the rotation a component that is 0 would tell nothing, and a
// vector of names has many.
//
// The rotation is signs and a Hadamard transform, twice (Ailon and Chazelle, 2006).
type coder struct {
	signs [2][]float32 // of as many components as a code has bits
}

func newCoder(dimensions int) coder {
	size := max(minBits, 1<<bits.Len(uint(dimensions-1)))
	random, c := rand.New(rand.NewPCG(1, 1)), coder{}
	for round := range c.signs {
		c.signs[round] = make([]float32, size)
		for i := range c.signs[round] {
			c.signs[round][i] = float32(1 - 2*random.IntN(2))
		}
	}
	return c
}

// words is how many words a code has: a multiple of 8.
func (c *coder) words() int { return len(c.signs[0]) / 64 }

// code returns the code of a vector.
func (c *coder) code(vector []float64) []uint64 {
	turned := make([]float32, len(c.signs[0]))
	for i, component := range vector {
		turned[i] = float32(component)
	}
	for _, signs := range c.signs {
		for i, sign := range signs {
			turned[i] *= sign
		}
		hadamard(turned)
	}
	code := make([]uint64, c.words())
	for i, component := range turned {
		code[i/64] |= uint64(^math.Float32bits(component)>>31) << (i % 64)
	}
	return code
}

// hadamard transforms a vector of 2^n components in place.
func hadamard(v []float32) {
	for half := 1; half < len(v); half *= 2 {
		for at := 0; at < len(v); at += 2 * half {
			a, b := v[at:at+half], v[at+half:at+2*half]
			for i := range a {
				a[i], b[i] = a[i]+b[i], a[i]-b[i]
			}
		}
	}
}

// differingInGo does what differingRows does, on any processor.
func differingInGo(code, rows []uint64, out []uint16) {
	for i := range out {
		out[i] = uint16(differing(code, rows[i*len(code):][:len(code)]))
	}
}

// differing counts the bits in which two codes, or as long parts of codes, differ.
func differing(a, b []uint64) (n int) {
	for len(a) >= 4 && len(b) >= 4 { // the compiler checks no bounds
		n += bits.OnesCount64(a[0]^b[0]) + bits.OnesCount64(a[1]^b[1]) +
			bits.OnesCount64(a[2]^b[2]) + bits.OnesCount64(a[3]^b[3])
		a, b = a[4:], b[4:]
	}
	return n
}
