#include "textflag.h"

// func popcountRows(code *uint64, words int, rows *uint64, n int, out *uint16)
//
// words is a positive multiple of 4. Two sums keep the additions from waiting for each other.
TEXT ·popcountRows(SB), NOSPLIT, $0-40
	MOVQ code+0(FP), SI
	MOVQ words+8(FP), CX
	MOVQ rows+16(FP), DI
	MOVQ n+24(FP), DX
	MOVQ out+32(FP), BX
	TESTQ DX, DX
	JZ   done

row:
	MOVQ SI, R8
	MOVQ CX, R9
	XORQ AX, AX
	XORQ R12, R12

word:
	MOVQ    (R8), R10
	MOVQ    8(R8), R11
	XORQ    (DI), R10
	XORQ    8(DI), R11
	POPCNTQ R10, R10
	POPCNTQ R11, R11
	ADDQ    R10, AX
	ADDQ    R11, R12
	MOVQ    16(R8), R10
	MOVQ    24(R8), R11
	XORQ    16(DI), R10
	XORQ    24(DI), R11
	POPCNTQ R10, R10
	POPCNTQ R11, R11
	ADDQ    R10, AX
	ADDQ    R11, R12
	ADDQ    $32, R8
	ADDQ    $32, DI
	SUBQ    $4, R9
	JNZ     word
	ADDQ    R12, AX
	MOVW    AX, (BX)
	ADDQ    $2, BX
	DECQ    DX
	JNZ     row

done:
	RET
