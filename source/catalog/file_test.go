package catalog_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	"keyfold/source/catalog"
)

// readAll returns the products and the errors of a file.
func readAll(r io.Reader) (products []profile.Product, errs []error) {
	for p, err := range catalog.ReadProducts(r) {
		if err != nil {
			errs = append(errs, err)
			continue
		}
		products = append(products, p)
	}
	return products, errs
}

func zipped(t testing.TB, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	must.OK(t, w.Close())
	return b.Bytes()
}

const catalogue = `{"product_id":1002098,"product_name":"samsung smartphone","category":"electronics.smartphone"}

{"product_id":9,"product_name":null,"category":null,"price":{"eur":[1,2]},"stock":3}` + "\r\n" + `
 {"embedding_model":"m","embedding":[0.1, -2e-3,3],"product_id":2147483647}`

func TestReadProducts(t *testing.T) {
	want := []profile.Product{
		{ID: 1002098, Name: "samsung smartphone", Category: "electronics.smartphone"},
		{ID: 9},
		{ID: math.MaxInt32, Model: "m", Vector: []float32{0.1, -0.002, 3}},
	}
	for name, file := range map[string][]byte{
		"plain":     []byte(catalogue),
		"gzip":      zipped(t, catalogue),
		"two gzips": append(zipped(t, catalogue[:10]), zipped(t, catalogue[10:])...),
		"marked":    []byte("\uFEFF" + catalogue + "\n"),
	} {
		got, errs := readAll(iotest.HalfReader(bytes.NewReader(file)))
		if fmt.Sprint(got) != fmt.Sprint(want) || errs != nil {
			t.Errorf("%s: got %v, %v", name, got, errs)
		}
	}
	for _, empty := range []string{"", "\n", "{", " \n\n "} {
		if got, errs := readAll(strings.NewReader(empty)); len(got) != 0 || (len(errs) != 0) != (empty == "{") {
			t.Errorf("%q: %v, %v", empty, got, errs)
		}
	}
}

func TestReadProductsRefuses(t *testing.T) {
	for line, cure := range map[string]string{
		`{"product_name":"x"}`:                 "product_id is absent",
		`{}`:                                   "product_id is absent",
		`{"product_id":null}`:                  "integer from 1",
		`{"product_id":"1"}`:                   "integer from 1",
		`{"product_id":1.0}`:                   "integer from 1",
		`{"product_id":1e3}`:                   "integer from 1",
		`{"product_id":0}`:                     "integer from 1",
		`{"product_id":-1}`:                    "integer from 1",
		`{"product_id":2147483648}`:            "integer from 1",
		`{"product_id":1,"product_id":1}`:      `"product_id" again`,
		`{"product_id":1,"price":1,"price":2}`: `"price" again`,
		`{"product_id":1,"category":"a","\u0063ategory":""}`: `"category" again`,
		`{"Product_ID":1}`:                                "write product_id",
		`{"product_id":1,"Embedding":[1]}`:                "write embedding",
		`{"product_id":1,"product_name":5}`:               "string or null",
		`{"product_id":1,"category":["a"]}`:               "string or null",
		`{"product_id":1,"embedding_model":true}`:         "string or null",
		`{"product_id":1,"embedding":"[1]"}`:              "array of numbers",
		`{"product_id":1,"embedding":{"0":1}}`:            "array of numbers",
		`{"product_id":1,"embedding":[]}`:                 "leave it out",
		`{"product_id":1,"embedding":[1,null]}`:           "null for component 1",
		`{"product_id":1,"embedding":[1,"2"]}`:            "for component 1",
		`{"product_id":1,"embedding":[[1]]}`:              "for component 0",
		`{"product_id":1,"embedding":[1,"2,3"]}`:          "for component 1",
		`{"product_id":1,"embedding":[1e39]}`:             "fits a float32",
		`{"product_id":1,"embedding":[NaN]}`:              "it is no JSON",
		`{"product_id":1,"embedding":[1,]}`:               "it is no JSON",
		`{"product_id":1,}`:                               "it is no JSON",
		`{"product_id":1]`:                                "it is no JSON",
		`{1:1}`:                                           "it is no JSON",
		`{"product_id":1`:                                 "cut off",
		`{"product_id":1,"embedding":[1,`:                 "cut off",
		`{"product_id":1}{"product_id":2}`:                "one per line",
		`{"product_id":1},`:                               "one per line",
		`[{"product_id":1}]`:                              "no JSON object",
		`null`:                                            "no JSON object",
		`{"product_id":1,"price":{"eur":1,"\u0065ur":2}}`: `"eur" again`,
		`{"product_id":1,"product_name":"\ud800"}`:        "shorten it by whole characters",
		"{\"product_id\":1,\"product_name\":\"\xff\"}":    "convert the file",
	} {
		file := "{\"product_id\":1}\n\n" + line + "\n{\"product_id\":2}\n"
		products, errs := readAll(strings.NewReader(file))
		if len(errs) != 1 || len(products) != 2 {
			t.Errorf("%s: %v, %v", line, products, errs)
			continue
		}
		wrong, ok := errors.AsType[*catalog.LineError](errs[0])
		if !ok || wrong.Line != 3 || !strings.Contains(errs[0].Error(), "line 3: ") ||
			engine.KindOf(errs[0]) != engine.Permanent {
			t.Errorf("%s: %v", line, errs[0])
		}
		if !strings.Contains(errs[0].Error(), cure) {
			t.Errorf("%s: %q does not say %q", line, errs[0], cure)
		}
	}
}

func TestReadProductsEndsWithTheFile(t *testing.T) {
	one := `{"product_id":1}` + "\n"
	long := `{"product_id":2,"product_name":"` + strings.Repeat("x", 1<<20) + `"}`
	gz := zipped(t, strings.Repeat(one, 1000))
	broken := errors.New("broken disk")
	for name, tc := range map[string]struct {
		file io.Reader
		want string
	}{
		"long line":    {strings.NewReader(one + long + "\n" + one), "line 2 is over"},
		"cut gzip":     {bytes.NewReader(gz[:len(gz)-6]), "copy it again"},
		"cut header":   {bytes.NewReader(gz[:5]), "copy it again"},
		"read failure": {io.MultiReader(strings.NewReader(one+"{"), iotest.ErrReader(broken)), "line 2, copy it again: broken disk"},
	} {
		_, errs := readAll(tc.file)
		if len(errs) != 1 || !strings.Contains(errs[0].Error(), tc.want) {
			t.Errorf("%s: %v", name, errs)
			continue
		}
		if _, ok := errors.AsType[*catalog.LineError](errs[0]); ok {
			t.Errorf("%s: a line's error, so reading would go on", name)
		}
	}
}

func TestReadProductsStopsWhereTheCallerDoes(t *testing.T) {
	for range catalog.ReadProducts(strings.NewReader(catalogue)) {
		break
	}
}

// What was written is read; and any text at all is read without a panic.
func TestReadProductsProperty(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p := profile.Product{
			ID:       rapid.Int32Range(1, math.MaxInt32).Draw(r, "id"),
			Name:     rapid.String().Draw(r, "name"),
			Category: rapid.String().Draw(r, "category"),
			Vector:   rapid.SliceOfN(rapid.Float32(), 1, 5).Draw(r, "vector"),
		}
		line, err := json.Marshal(map[string]any{
			"product_id": p.ID, "product_name": p.Name, "category": p.Category, "embedding": p.Vector,
		})
		must.OK(r, err)
		got, errs := readAll(bytes.NewReader(line))
		if len(errs) != 0 || len(got) != 1 || got[0].ID != p.ID || got[0].Name != p.Name ||
			got[0].Category != p.Category || !slices.Equal(got[0].Vector, p.Vector) {
			r.Fatalf("%s became %v, %v", line, got, errs)
		}
	})
}

func FuzzReadProducts(f *testing.F) {
	f.Add([]byte(catalogue))
	f.Add([]byte(`{"product_id":1,"embedding":[1,{"a":"]"},"x"]}`))
	f.Add([]byte{0x1f, 0x8b, 8})
	f.Fuzz(func(t *testing.T, file []byte) {
		for p, err := range catalog.ReadProducts(bytes.NewReader(file)) {
			if (err == nil) != (p.ID > 0) {
				t.Fatalf("product %d, error %v", p.ID, err)
			}
			if text := catalog.EmbedText(p); strings.TrimSpace(text) == "" {
				t.Fatalf("blank text for %+v", p)
			}
		}
	})
}

func TestEmbedText(t *testing.T) {
	for want, p := range map[string]profile.Product{
		"samsung smartphone electronics smartphone": {Name: "samsung smartphone", Category: "electronics.smartphone"},
		"YouTube Ceramic Mug 12oz. Home Drinkware":  {Name: "YouTube Ceramic  Mug 12oz.", Category: "Home/Drinkware"},
		"Headphones Electronics Audio":              {Name: " Headphones\n", Category: "Electronics > Audio"},
		"appliances kitchen":                        {Category: "appliances.kitchen"},
		"T-Shirt":                                   {Name: "T-Shirt", Category: " / "},
		"product 7":                                 {ID: 7, Category: "/"},
		"product 8":                                 {ID: 8},
	} {
		if got := catalog.EmbedText(p); got != want {
			t.Errorf("%+v: %q, want %q", p, got, want)
		}
	}
}

func BenchmarkReadProduct(b *testing.B) {
	vector := make([]float32, 1536)
	for i := range vector {
		vector[i] = float32(math.Sin(float64(i))) / 39
	}
	line, err := json.Marshal(map[string]any{"product_id": 1, "product_name": "mug", "embedding": vector})
	must.OK(b, err)
	file := bytes.Repeat(append(line, '\n'), 100)
	b.ReportAllocs()
	for b.Loop() {
		if products, errs := readAll(bytes.NewReader(file)); len(products) != 100 || errs != nil {
			b.Fatal(errs)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(100*b.N), "ns/product")
}
