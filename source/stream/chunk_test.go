package stream

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"keyfold/engine"
)

// made is a chunk of entries as brokers send one.
func made(first uint64, kind byte, records int, entries ...[]byte) []byte {
	data := bytes.Join(entries, nil)
	b := []byte{magic, kind}
	b = order.AppendUint16(b, uint16(len(entries)))
	b = order.AppendUint32(b, uint32(records))
	b = order.AppendUint64(b, 1_700_000_000_000)
	b = order.AppendUint64(b, 1)
	b = order.AppendUint64(b, first)
	b = order.AppendUint32(b, crc32.ChecksumIEEE(data))
	b = order.AppendUint32(b, uint32(len(data)))
	b = order.AppendUint32(b, 0)
	b = append(b, 0, 0, 0, 0)
	return append(b, data...)
}

// entry is a message as an entry, and in a sub-entry.
func entry(body string, headers map[string]any) []byte {
	m, err := AppendMessage(nil, []byte(body), headers)
	if err != nil {
		panic(err)
	}
	return append(order.AppendUint32(nil, uint32(len(m))), m...)
}

func subEntryOf(kind byte, count, size int, content []byte) []byte {
	b := order.AppendUint16([]byte{subEntry | kind<<compressionShift}, uint16(count))
	b = order.AppendUint32(b, uint32(size))
	b = order.AppendUint32(b, uint32(len(content)))
	return append(b, content...)
}

func gzipOf(content []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write(content)
	w.Close()
	return b.Bytes()
}

func zstdOf(content []byte) []byte {
	w, err := zstd.NewWriter(nil)
	if err != nil {
		panic(err)
	}
	defer w.Close()
	return w.EncodeAll(content, nil)
}

// samples are chunks of all kinds of entries: three messages each, at 100 and on.
func samples() map[string][]byte {
	headers := map[string]any{"keyfold-first-seen": int64(5), "keyfold-stream": "s@8", "at": time.UnixMilli(9), "flag": true, "none": nil, "ratio": 0.5, "bytes": []byte{1}}
	a, b, c := entry("body 100", headers), entry(strings.Repeat("x", 300), nil), entry("", nil)
	all := bytes.Join([][]byte{a, b, c}, nil)
	return map[string][]byte{
		"entries":   made(100, userChunk, 3, a, b, c),
		"sub-entry": made(100, userChunk, 3, a, subEntryOf(uncompressed, 2, len(b)+len(c), append(b, c...))),
		"gzip":      made(100, userChunk, 3, subEntryOf(gzipped, 3, len(all), gzipOf(all))),
		"zstd":      made(100, userChunk, 3, subEntryOf(zstandard, 3, len(all), zstdOf(all))),
	}
}

func TestChunk(t *testing.T) {
	for name, b := range samples() {
		c, err := parseChunk("s", b)
		if err != nil || c.First != 100 || c.Next() != 103 || c.Timestamp != 1_700_000_000_000 || c.CRC == 0 || c.Size() == 0 {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
		var got []string
		err = c.Each(func(offset uint64, m Message) error {
			body, err := m.Body()
			got = append(got, fmt.Sprintf("%d %.8s %d", offset, body, len(body)))
			return err
		})
		if fmt.Sprint(got) != "[100 body 100 8 101 xxxxxxxx 300 102  0]" || err != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		stop := errors.New("stop")
		if err := c.Each(func(uint64, Message) error { return stop }); err != stop { //nolint:errorlint // the same value
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A chunk that is made of messages has them, and the identity that a broker's would have.
func TestNewChunk(t *testing.T) {
	m := entry("body", nil)[lengthSize:]
	c := NewChunk("s", 5, 9, m, m)
	want, err := parseChunk("s", made(5, userChunk, 2, entry("body", nil), entry("body", nil)))
	if err != nil || c.CRC != want.CRC || c.Next() != 7 || c.Timestamp != 9 {
		t.Errorf("%+v, want %+v, %v", c, want, err)
	}
	read := 0
	if err := c.Each(func(uint64, Message) error { read++; return nil }); err != nil || read != 2 {
		t.Errorf("%d messages, %v", read, err)
	}
}

// What is the broker's own takes offsets, and has no messages.
func TestTrackingChunk(t *testing.T) {
	c, err := parseChunk("s", made(7, 1, 1, []byte("a stored offset")))
	if err != nil || c.First != 7 || c.Next() != 8 {
		t.Errorf("%+v, %v", c, err)
	}
	if err := c.Each(func(uint64, Message) error { return errors.New("a message") }); err != nil {
		t.Error(err)
	}
}

// A chunk that cannot be trusted is named by stream and offset.
//
// Promise(rabbitmq/stream-crc): A chunk with a wrong CRC is not read: it ends the connection, with the stream and the offset in the error.
func TestBrokenChunks(t *testing.T) {
	whole := entry("x", nil)
	broken := made(100, userChunk, 1, whole)
	broken[len(broken)-1] ^= 1
	form := made(100, userChunk, 1, whole)
	form[0] = 0x51
	for want, b := range map[string][]byte{
		"its CRC is wrong": broken,
		"unknown form":     form,
		"shorter":          made(100, userChunk, 1, whole)[:55],
	} {
		if _, err := parseChunk("my stream", b); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `"my stream"`) ||
			!strings.Contains(err.Error(), "100") {
			t.Errorf("%s: %v", want, err)
		}
	}
	bomb := gzipOf(make([]byte, 1<<20))
	for want, b := range map[string][]byte{
		"a message is longer":   made(100, userChunk, 1, whole[:len(whole)-1]),
		"a sub-entry is longer": made(100, userChunk, 1, subEntryOf(uncompressed, 1, 9, whole)[:9]),
		"fewer messages":        made(100, userChunk, 2, whole),
		"more messages":         made(100, userChunk, 1, whole, whole),
		"compression snappy":    made(100, userChunk, 1, subEntryOf(2, 1, 9, whole)),
		"compression number 7":  made(100, userChunk, 1, subEntryOf(7, 1, 9, whole)),
		"not of the size":       made(100, userChunk, 1, subEntryOf(gzipped, 1, 9, bomb)),
		"more than 33554432":    made(100, userChunk, 1, subEntryOf(zstandard, 1, 1<<31, whole)),
		"invalid header":        made(100, userChunk, 1, subEntryOf(gzipped, 1, 9, whole)),
		"magic number":          made(100, userChunk, 1, subEntryOf(zstandard, 1, 9, whole)),
	} {
		c, err := parseChunk("my stream", b)
		if err != nil {
			t.Errorf("%s: %v", want, err)
			continue
		}
		err = c.Each(func(uint64, Message) error { return nil })
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `"my stream"`) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestMalformedMessages(t *testing.T) {
	data := func(format byte, content string) string {
		return "\x00\x53\x75" + string([]byte{format}) + "\x01" + content
	}
	for raw, want := range map[string]error{
		"":                                   errNoData,
		"x":                                  errMalformed,
		"\x00":                               errMalformed,
		"\x00\x00\x00":                       errMalformed,
		"\x00\x53\x79\x40":                   errMalformed,
		"\x00\x53\x70\x45":                   errNoData,
		"\x00\x53\x76\x45":                   errOther,
		"\x00\x53\x77\xa1\x01x":              errOther,
		data(string8, "x"):                   errMalformed,
		data(binary8, ""):                    errMalformed,
		data(binary8, "x") + data(0xa0, "y"): errData,
		data(binary8, "x"):                   nil,
		"\x00\x80\x00\x00\x00\x00\x00\x00\x00\x75\xb0\x00\x00\x00\x01x\x00\x53\x78\x40": nil,
	} {
		body, err := Message{raw: []byte(raw)}.Body()
		if !errors.Is(err, want) || err == nil && string(body) != "x" || err != nil && engine.KindOf(err) != engine.Permanent {
			t.Errorf("%q: %q, %v, want %v", raw, body, err, want)
		}
	}
}

// Types that other clients use are read, and those that no header of keyfold's has are left out.
func TestHeaderTypes(t *testing.T) {
	name := func(n string) []byte { return appendSized(nil, string8, n) }
	items := [][]byte{
		name("a"),
		{uint0},
		name("b"),
		{smallUint, 200},
		name("c"),
		{ushort, 1, 0},
		name("d"),
		{uint32s, 0, 1, 0, 0},
		name("e"),
		{ulong, 0, 0, 0, 0, 0, 0, 0, 9},
		name("f"),
		{int8s, 255},
		name("g"),
		{int16s, 255, 254},
		name("h"),
		{int32s, 255, 255, 255, 253},
		name("i"),
		{smallLong, 251},
		name("j"),
		{boolean, 1},
		name("k"),
		{float, 0x3f, 0, 0, 0},
		name("l"), appendSized(nil, symbol8, "sym"),
		name("list"),
		{0xc0, 1, 0},
		name("big"),
		{ulong, 255, 0, 0, 0, 0, 0, 0, 0},
		name("uuid"), append([]byte{0x98}, make([]byte, 16)...),
		name("described"),
		{described, smallUlong, 1, 0xa1, 1, 'x'},
		{smallUint, 1},
		name("number"),
	}
	content := append([]byte{byte(len(items))}, bytes.Join(items, nil)...)
	raw := append([]byte{described, smallUlong, propertiesSection, map8, byte(len(content))}, content...)
	got, err := Message{raw: raw}.Headers()
	const want = "map[a:0 b:200 c:256 d:65536 described:x e:9 f:-1 g:-2 h:-3 i:-5 j:true k:0.5 l:sym]"
	if fmt.Sprint(got) != want || err != nil {
		t.Errorf("%v, %v", got, err)
	}
	for _, raw := range []string{"\x00\x53\x74\x40", "\x00\x53\x74\xc1\x01\x02", "\x00\x53\x74\xd1\x00\x00\x00\x04\xff\xff\xff\xff", "x"} {
		if _, err := (Message{raw: []byte(raw)}).Headers(); !errors.Is(err, errMalformed) {
			t.Errorf("%q: %v", raw, err)
		}
	}
	if _, err := AppendMessage(nil, nil, map[string]any{"x": struct{}{}}); err == nil || !strings.Contains(err.Error(), `"x"`) {
		t.Error(err)
	}
}
