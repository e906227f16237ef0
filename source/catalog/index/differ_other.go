//go:build !amd64

package index

func differingRows(code, rows []uint64, out []uint16) { differingInGo(code, rows, out) }
