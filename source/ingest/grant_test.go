package ingest

import (
	"net/http"
	"testing"
)

// A token for some notifications posts no events: more than its scope is needed.
//
// Promise(api/limited-tokens)
func TestALimitedTokenPostsNoEvents(t *testing.T) {
	m := newMemory()
	s := newTestServer(t, onLoopback("limited-token-0001 send source=newsletter", "limited-token-0002 type=PROMO", "sender-token-00001 send"), m)
	for _, limited := range []string{"limited-token-0001", "limited-token-0002"} {
		w, answer := serve(t, s, from("192.0.2.1:9", limited))
		if w.Code != http.StatusForbidden || len(answer.Errors) != 1 || answer.Errors[0].Reason != "token_limited" {
			t.Errorf("%s meets %d %+v", limited, w.Code, answer)
		}
	}
	if w, _ := serve(t, s, from("192.0.2.1:9", "sender-token-00001")); w.Code != http.StatusAccepted || m.len() != 1 {
		t.Errorf("the other one meets %d, and %d events are stored", w.Code, m.len())
	}
}
