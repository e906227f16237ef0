package index

import "golang.org/x/sys/cpu"

// differingRows writes into out in how many bits the code differs from each of as many codes
// that follow each other in rows. The compiler's own popcount asks for each word whether the
// processor has the instruction, unless the program is built for GOAMD64=v2: BenchmarkDiffering
// tells what that costs.
func differingRows(code, rows []uint64, out []uint16) {
	if !cpu.X86.HasPOPCNT {
		differingInGo(code, rows, out)
		return
	}
	if len(out) > 0 {
		_ = rows[len(code)*len(out)-1]
		popcountRows(&code[0], len(code), &rows[0], len(out), &out[0])
	}
}

//go:noescape
func popcountRows(code *uint64, words int, rows *uint64, n int, out *uint16)
