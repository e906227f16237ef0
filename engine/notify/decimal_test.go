package notify_test

import (
	"math"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"keyfold/engine/notify"
)

// literals draws JSON numbers, many of them with equal values.
func literals() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.StringMatching(`-?(0|[1-9][0-9]{0,3})(\.[0-9]{1,4})?([eE][+-]?[0-3])?`),
		rapid.StringMatching(`-?(0|10{0,22}|9{1,22})(\.0{0,3}[0159])?([eE][+-]?[0-9]{1,2})?`),
	)
}

func rat(t *rapid.T, literal string) *big.Rat {
	r, ok := new(big.Rat).SetString(literal)
	if !ok {
		t.Fatalf("big.Rat does not read %q", literal)
	}
	return r
}

func parsed(t rapid.TB, literal string) notify.Decimal {
	d, err := notify.ParseDecimal(literal)
	if err != nil {
		t.Fatalf("ParseDecimal(%q): %v", literal, err)
	}
	return d
}

func TestDecimalsCompareByValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := literals().Draw(t, "a"), literals().Draw(t, "b")
		want := rat(t, a).Cmp(rat(t, b))
		if got := parsed(t, a).Compare(parsed(t, b)); got != want {
			t.Fatalf("%s compared with %s: %d, want %d", a, b, got, want)
		}
	})
}

func TestDecimalsOfOneValueAreEqual(t *testing.T) {
	for _, same := range [][]string{
		{"1", "1.0", "1.000", "10e-1", "0.1e1", "0.1E+1", "100e-02"},
		{"0", "-0", "0.0", "-0.00e5", "0e10000"},
		{"-12.5", "-1.25e1", "-125E-1"},
		{"12345678901234567890.1", "123456789012345678901e-1"},
	} {
		for _, literal := range same {
			if a, b := parsed(t, same[0]), parsed(t, literal); a != b || a.Compare(b) != 0 {
				t.Errorf("%s is %+v, %s is %+v", same[0], a, literal, b)
			}
		}
	}
}

func TestDecimalsKeepEachDigit(t *testing.T) {
	less, more := parsed(t, "9007199254740992"), parsed(t, "9007199254740993") // equal as float64
	if less.Compare(more) != -1 || more.Compare(less) != 1 {
		t.Error("2^53 is not less than 2^53 + 1")
	}
}

func TestHostileNumbersAreRefused(t *testing.T) {
	for _, literal := range []string{"1e999999999", "1e-999999999", "1e10001", "-1e" + strings.Repeat("9", 4000)} {
		if _, err := notify.ParseDecimal(literal); err == nil || !strings.Contains(err.Error(), "10,000") {
			t.Errorf("ParseDecimal(%.20s): %v, want the bound named", literal, err)
		}
	}
	for _, literal := range []string{"", "-", "+1", "01", ".5", "1.", "1e", "1e+", "1e1.5", "0x1", "1_0", "NaN", "Infinity", "1 ", "--1", "1e--1", "1e+-1", "1.2.3"} {
		if d, err := notify.ParseDecimal(literal); err == nil {
			t.Errorf("ParseDecimal(%q) = %+v, want an error", literal, d)
		}
	}
	if parsed(t, "1e10000").Compare(parsed(t, "9e9999")) != 1 || parsed(t, "1e-10000").Compare(parsed(t, "0")) != 1 {
		t.Error("numbers at the bound compare wrongly")
	}
}

func TestDecimalFloor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		literal, places := literals().Draw(t, "literal"), rapid.IntRange(0, 3).Draw(t, "places")
		value := rat(t, literal)
		value.Mul(value, new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(places)), nil)))
		floor, rest := new(big.Int).DivMod(value.Num(), value.Denom(), new(big.Int))
		want, exact := floor.Int64(), rest.Sign() == 0
		switch {
		case value.Cmp(new(big.Rat).SetInt64(math.MaxInt64)) > 0:
			want, exact = math.MaxInt64, false
		case value.Cmp(new(big.Rat).SetInt64(-math.MaxInt64)) < 0:
			want, exact = math.MinInt64, false
		}
		if got, gotExact := parsed(t, literal).Floor(places); got != want || gotExact != exact {
			t.Fatalf("floor of %s x 10^%d: %d, %t, want %d, %t", literal, places, got, gotExact, want, exact)
		}
	})
}

func TestCompareDoesNotAllocate(t *testing.T) {
	a, b := parsed(t, "12.345"), parsed(t, "12.346")
	if n := testing.AllocsPerRun(100, func() { a.Compare(b) }); n != 0 {
		t.Errorf("Compare allocates %v times", n)
	}
}
