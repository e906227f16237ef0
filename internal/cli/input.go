package cli

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"keyfold/engine/profile"
)

// Input is a stream of NDJSON lines, plain or gzip.
type Input struct {
	Name  string
	Size  int64 // bytes of the file, 0 where it is not known
	Lines *bufio.Reader
	Line  int64 // that Next returned last, from 1

	read  atomic.Int64
	close func() error
}

// OpenInput opens a file, or standard input for "-".
func OpenInput(path string, stdin io.Reader) (*Input, error) {
	in := &Input{Name: path, close: func() error { return nil }}
	source := stdin
	if path == "-" {
		in.Name = "standard input"
	} else {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		in.close = f.Close
		switch info, err := f.Stat(); {
		case err != nil: // reading it says why
		case info.IsDir():
			return nil, errors.Join(fmt.Errorf("%s is a folder: name a file", path), f.Close())
		case info.Mode().IsRegular():
			in.Size = info.Size()
		}
		source = f
	}
	plain := bufio.NewReaderSize(counted{source, &in.read}, 256<<10)
	// Peek blocks until a pipe has a byte or ends, which is when it matters.
	if magic, err := plain.Peek(2); err == nil && bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		unzipped, err := gzip.NewReader(plain)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", in.Name, err), in.close())
		}
		plain = bufio.NewReaderSize(unzipped, 256<<10)
	}
	in.Lines = plain
	return in, nil
}

// Read returns how many bytes of the file were read.
func (in *Input) Read() int64 { return in.read.Load() }

// Close closes the file.
func (in *Input) Close() error { return in.close() }

type counted struct {
	io.Reader
	n *atomic.Int64
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// Next returns the next line that is not blank, without its end, or io.EOF. The
// line is the caller's. One that is too long to be an event is cut right behind
// the limit, so that it is refused for its length and never held.
func (in *Input) Next() ([]byte, error) {
	for {
		line, err := in.line()
		if body := bytes.TrimSpace(line); len(body) > 0 {
			return bytes.Clone(body), nil
		}
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, errors.New("the file is cut off: run it again with the whole one")
		}
		if err != nil {
			return nil, err
		}
	}
}

func (in *Input) line() ([]byte, error) {
	in.Line++
	line, err := in.Lines.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return line, err
	}
	cut := bytes.Clone(line[:profile.MaxBodyBytes+1])
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = in.Lines.ReadSlice('\n')
	}
	return cut, err
}
