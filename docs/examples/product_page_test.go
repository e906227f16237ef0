package examples_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	"keyfold/service/profile/users"
)

// The page recommends by the mix of both vectors, and by the first alone where the second is of
// an older version.
func TestProductPage(t *testing.T) {
	products := filepath.Join(t.TempDir(), "products.ndjson")
	must.OK(t, os.WriteFile(products, []byte(`{"product_id":1,"product_name":"often","embedding":[2,0]}
{"product_id":2,"product_name":"now","embedding":[0,3]}
`), 0o600))
	var export bytes.Buffer
	p := &profile.Profile{UserID: 17, Version: 4, Vector: []float64{1, 0}, Short: profile.Short{Vector: []float64{0, 1}, Mass: 1, HalfLife: time.Minute}}
	must.OK(t, json.NewEncoder(&export).Encode(users.DocumentOf(&profile.Profile{UserID: 16, Version: 1, ErasedAt: 1})))
	must.OK(t, json.NewEncoder(&export).Encode(users.DocumentOf(p)))
	stale := strings.Replace(export.String(), `"user_id":17`, `"short_version":3,"user_id":17`, 1)
	for _, c := range []struct{ input, user, share, first, second string }{
		{export.String(), "17", "0", "1.000  often", "0.000  now"},
		{export.String(), "17", "0.8", "0.970  now", "0.243  often"},
		{stale, "17", "0.8", "1.000  often", "0.000  now"},
	} {
		code, out, errs := run(t, nil, c.input, "php", "product_page.php", c.user, c.share, products)
		if code != 0 || out != c.first+"\n"+c.second {
			t.Errorf("share %s: %d %s %s", c.share, code, out, errs)
		}
	}
	if code, _, errs := run(t, nil, export.String(), "php", "product_page.php", "16", "0", products); code != 1 || !strings.Contains(errs, "no profile") {
		t.Errorf("an erased user: %d %s", code, errs)
	}
}
