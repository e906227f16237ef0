package main

import (
	"encoding/json"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"keyfold/service/profile/explanation"
)

// explained runs the command on a folder of the sample shop.
func explained(t *testing.T, data string, args ...string) (v explanation.View) {
	t.Helper()
	code, out, errs := lite(t, "", append([]string{"user", "explain", "--data", data, "-o", "json"}, args...)...)
	if code != 0 {
		t.Fatalf("explain %v: code %d, %s", args, code, errs)
	}
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	return v
}

func total(sums []explanation.Sum) (share float64) {
	for _, s := range sums {
		share += s.Share
	}
	return share
}

// The shares of all events add up to 1, in each table, the refold equals what is stored, and
// what is left out changes the profile.
func TestExplainAddsUp(t *testing.T) {
	t.Parallel()
	for _, history := range []string{"mass", "unit"} {
		data := filepath.Join(t.TempDir(), "data")
		if code, _, errs := lite(t, "", "--data", data, "--sample", "300", "--exit", "--history", history); code != 0 {
			t.Fatal(errs)
		}
		v := explained(t, data, "1", "--history", history, "--events", "100000", "--without", "last-session", "--without", "product_view", "--half-life", "1h", "--product", "5")
		listed := v.Remainder
		for _, p := range v.Events {
			listed += p.Share
		}
		for name, sum := range map[string]float64{"events": listed, "types": total(v.Types) + v.Remainder, "categories": total(v.Category) + v.Remainder, "ages": total(v.Ages) + v.Remainder} {
			if math.Abs(sum-1) > 1e-9 {
				t.Errorf("%s: the shares of the %s add up to %v", history, name, sum)
			}
		}
		if !v.Equal || v.Distance > 1e-9 || v.More != 0 || len(v.Events) != v.Folded || v.Folded == 0 {
			t.Errorf("%s: %d events, %d listed, distance %g", history, v.Folded, len(v.Events), v.Distance)
		}
		if len(v.Nearest) != 10 || len(v.Nearest[0].Because) != 2 || v.Product == nil || v.Product.ProductID != 5 {
			t.Errorf("%s: nearest %+v, product %+v", history, v.Nearest, v.Product)
		}
		if len(v.WhatIf) != 3 || v.WhatIf[0].Events == 0 || v.WhatIf[0].Cosine >= 1 || v.WhatIf[2].Cosine >= 0.9999 || len(v.WhatIf[1].Nearest) != 10 {
			t.Errorf("%s: what if %+v", history, v.WhatIf)
		}
		one := explained(t, data, "1", "--history", history, "--without", v.Events[0].MessageID[:20], "--near", "0")
		if len(one.WhatIf) != 1 || one.WhatIf[0].Events != 1 || len(one.Nearest) != 0 {
			t.Errorf("%s: without one event: %+v", history, one.WhatIf)
		}
	}
}

// Another decay than the profile's own leaves a remainder, and the shares add up all the same.
func TestExplainByOtherSettings(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	if code, _, errs := lite(t, "", "--data", data, "--sample", "100", "--exit"); code != 0 {
		t.Fatal(errs)
	}
	v := explained(t, data, "1", "--decay-lambda", "0.5", "--events", "100000")
	sum := v.Remainder
	for _, p := range v.Events {
		sum += p.Share
	}
	if v.Equal || math.Abs(sum-1) > 1e-9 || v.Remainder < 0.01 || len(v.Rest) == 0 {
		t.Errorf("equal %v, remainder %v, sum %v", v.Equal, v.Remainder, sum)
	}
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"1", "--dimensions", "64"}, "1536 dimensions"},
		{[]string{"1", "--without", "zzzz"}, "0 events of the user"},
		{[]string{"1", "--product", "99999"}, "no product with a usable vector"},
		{[]string{"1", "--near", "-1"}, "near"},
		{[]string{"1", "--half-life", "soon"}, "half-life"},
		{[]string{"99999"}, "no profile"},
	} {
		code, _, errs := lite(t, "", append([]string{"user", "explain", "--data", data}, test.args...)...)
		if code == 0 || !strings.Contains(errs, test.want) {
			t.Errorf("%v: code %d, %s", test.args, code, errs)
		}
	}
	if code, _, errs := lite(t, "", "user", "forget", "1", "--yes", "--data", data); code != 0 {
		t.Fatal(errs)
	}
	if code, _, errs := lite(t, "", "user", "explain", "1", "--data", data); code == 0 || !strings.Contains(errs, "was erased") {
		t.Errorf("erased: code %d, %s", code, errs)
	}
}
