package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"keyfold/engine/profile"
)

// A rebuild of more events than a profile keeps ids of leaves no floor at the end of time.
func TestRebuildDatesItsFloor(t *testing.T) {
	t.Parallel()
	var lines strings.Builder
	began := time.Now().Add(-48 * time.Hour)
	for i := range profile.DefaultIDLimits().Keep + 10 {
		fmt.Fprintf(&lines, `{"user_id":7,"event_type":"product_view","product_id":3,"occurred_at":%q,"message_id":"m%d"}`+"\n",
			began.Add(time.Duration(i)*time.Second).UTC().Format(time.RFC3339), i)
	}
	data := filepath.Join(t.TempDir(), "data")
	args := []string{small, "--data", data}
	fold(t, lines.String(), append(args, "--no-products", "--events=-")...)
	r := rebuild(t, append(args, "--products", shopFile(t))...)
	if r.Users != 1 {
		t.Fatalf("%+v", r)
	}
	code, out, errs := lite(t, "", "user", "show", "7", "-o", "json", "--data", data)
	if code != 0 {
		t.Fatal(errs)
	}
	at := strings.Index(out, "applied_floor")
	if at < 0 {
		t.Fatal(out[:min(len(out), 600)])
	}
	if strings.Contains(out, "9999-12-31") {
		t.Errorf("its floor: %s", out[at:min(len(out), at+50)])
	}
}
