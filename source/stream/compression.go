package stream

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// Compressions of sub-entries that can be read.
const (
	uncompressed = 0
	gzipped      = 1
	zstandard    = 4
)

// maxUncompressed bounds what a sub-entry may grow to, in bytes: as much as 500 events of
// the largest size that keyfold takes.
const maxUncompressed = 32 << 20

var compressions = [...]string{"none", "gzip", "snappy", "lz4", "zstd"}

var errSize = errors.New("a sub-entry is not of the size that it says")

// uncompress returns a sub-entry's content, of the size that it says.
func uncompress(kind byte, content []byte, size uint32) (out []byte, err error) {
	if size > maxUncompressed {
		return nil, fmt.Errorf("a sub-entry of %d bytes, more than %d", size, maxUncompressed)
	}
	switch kind {
	case gzipped:
		out, err = gunzip(content, int64(size))
	case zstandard:
		out, err = unzstd(content)
	default:
		name := fmt.Sprintf("number %d", kind)
		if int(kind) < len(compressions) {
			name = compressions[kind]
		}
		return nil, fmt.Errorf("a sub-entry has the compression %s: publish without one, or with gzip or zstd", name)
	}
	if err == nil && len(out) != int(size) {
		err = errSize
	}
	return out, err
}

// gunzip allocates as the bytes come, and reads at most one more than there should be.
func gunzip(content []byte, size int64) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(r, size+1))
}

// decoder is shared: it keeps nothing between calls.
var decoder = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(maxUncompressed), zstd.WithDecoderLowmem(true))
})

func unzstd(content []byte) ([]byte, error) {
	d, err := decoder()
	if err != nil {
		return nil, err
	}
	return d.DecodeAll(content, nil)
}
