package examples_test

import (
	"encoding/binary"
	"encoding/hex"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"

	"keyfold/internal/testserver/must"
)

// What the page says of each language reads a binary vector.
func TestBinaryVectorsAreReadInOtherLanguages(t *testing.T) {
	page, err := os.ReadFile("../howto/binary-vectors.md")
	must.OK(t, err)
	var b []byte
	for _, x := range []float64{0.6, -0.8, 1.0 / 3, math.SmallestNonzeroFloat64} {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
	}
	text := hex.EncodeToString(b)
	const want = "0.6 -0.8 true 4"
	for language, program := range map[string][]string{
		"PHP": {"php", "-r", `class B { function getData() { return hex2bin("` + text + `"); } }
			$profile = ["embedding" => new B]; $v = EXPRESSION;
			echo $v[0], " ", $v[1], " ", $v[2] === 1 / 3 ? "true" : "false", " ", count($v);`},
		"Python": {"/usr/bin/python3", "-c", `import struct
profile = {"embedding": bytes.fromhex("` + text + `")}
v = EXPRESSION
print(v[0], v[1], str(v[2] == 1 / 3).lower(), len(v))`},
		"Node.js": {"node", "-e", `const profile = { embedding: { buffer: Buffer.from("` + text + `", "hex") } };
			const v = EXPRESSION; console.log(v[0], v[1], v[2] === 1 / 3, v.length)`},
	} {
		row := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(language) + " \\| `(.+)` \\|$").FindStringSubmatch(string(page))
		if row == nil {
			t.Fatalf("the page has no row of %s", language)
		}
		program[2] = strings.ReplaceAll(program[2], "EXPRESSION", row[1])
		if code, out, errs := run(t, nil, "", program...); code != 0 || strings.TrimSpace(out) != want {
			t.Errorf("%s: %d %s %s", language, code, out, errs)
		}
	}
}
