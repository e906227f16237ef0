package notify

import (
	"cmp"
	"errors"
	"math"
	"strconv"
	"strings"
)

// Decimal is a number as it was written in JSON, compared by value: 1.0 equals 1,
// and no digit is lost. The zero value is 0.
type Decimal struct {
	negative bool
	digits   string // without leading and trailing zeros; "" is 0
	exponent int    // the value is 0.digits x 10^exponent
}

// MaxExponent bounds the exponent that a number may be written with, either way.
// With it a number of [MaxMetadataBytes] stays within what PostgreSQL's jsonb
// stores, and a hostile 1e999999999 costs nothing.
const MaxExponent = 10_000

// Errors of [ParseDecimal].
var (
	errNoNumber = errors.New("expected a JSON number")
	errExponent = errors.New("the exponent is beyond 10,000: write a number nearer to 0")
)

// ParseDecimal reads a JSON number. It refuses an exponent beyond [MaxExponent].
func ParseDecimal(literal string) (Decimal, error) {
	rest, negative := strings.CutPrefix(literal, "-")
	mantissa, power := rest, ""
	if e := strings.IndexAny(rest, "eE"); e >= 0 {
		mantissa, power = rest[:e], rest[e+1:]
	}
	whole, fraction, point := strings.Cut(mantissa, ".")
	if !digitsOnly(whole) || len(whole) > 1 && whole[0] == '0' || point && !digitsOnly(fraction) {
		return Decimal{}, errNoNumber
	}
	exponent := 0
	if len(mantissa) < len(rest) {
		var err error
		if exponent, err = parseExponent(power); err != nil {
			return Decimal{}, err
		}
	}
	if whole == "0" {
		whole = ""
	}
	digits := fraction
	if whole != "" {
		digits = whole + fraction
	}
	exponent += len(whole)
	significant := strings.TrimLeft(digits, "0")
	exponent -= len(digits) - len(significant)
	if significant = strings.TrimRight(significant, "0"); significant == "" {
		return Decimal{}, nil // -0 is 0
	}
	return Decimal{negative, significant, exponent}, nil
}

func digitsOnly(s string) bool {
	for i := range len(s) {
		if s[i]-'0' > 9 {
			return false
		}
	}
	return s != ""
}

func parseExponent(s string) (int, error) {
	bare, negative := strings.CutPrefix(s, "-")
	if !negative {
		bare = strings.TrimPrefix(bare, "+")
	}
	if !digitsOnly(bare) {
		return 0, errNoNumber
	}
	n, err := strconv.Atoi(bare)
	if err != nil || n > MaxExponent { // Atoi's only error is one of range
		return 0, errExponent
	}
	if negative {
		n = -n
	}
	return n, nil
}

// Compare returns -1 if d is less than e, 0 if both have the same value, else 1. It
// does not allocate.
func (d Decimal) Compare(e Decimal) int {
	if c := cmp.Compare(d.sign(), e.sign()); c != 0 {
		return c
	}
	c := cmp.Compare(d.exponent, e.exponent)
	if c == 0 {
		c = cmp.Compare(d.digits, e.digits) // both are 0.digits, without trailing zeros
	}
	if d.negative {
		return -c
	}
	return c
}

func (d Decimal) sign() int {
	switch {
	case d.digits == "":
		return 0
	case d.negative:
		return -1
	default:
		return 1
	}
}

// Floor returns the largest integer that is at most d x 10^places, and whether it
// equals that. Beyond int64 it returns int64's bound.
func (d Decimal) Floor(places int) (floor int64, exact bool) {
	end := d.exponent + places // so many digits are before the point
	switch {
	case d.digits == "":
		return 0, true
	case end > 19:
		if d.negative {
			return math.MinInt64, false
		}
		return math.MaxInt64, false
	}
	var n uint64 // 19 digits fit
	for i := range max(end, 0) {
		n *= 10
		if i < len(d.digits) {
			n += uint64(d.digits[i] - '0')
		}
	}
	exact = end >= len(d.digits)
	switch {
	case !d.negative && n > math.MaxInt64:
		return math.MaxInt64, false
	case !d.negative:
		return int64(n), exact
	case n > math.MaxInt64: // -2^63 itself counts as beyond
		return math.MinInt64, false
	case exact:
		return -int64(n), true
	default:
		return -int64(n) - 1, false
	}
}
