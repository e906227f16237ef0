package engine

import (
	"maps"
	"strings"
	"testing"
)

const validParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func TestTraceOf(t *testing.T) {
	zeros := strings.Repeat("0", 32)
	for name, c := range map[string]struct{ in, want map[string]string }{
		"none":                     {nil, nil},
		"all":                      {map[string]string{"traceparent": validParent, "tracestate": "a=1,b=2", "X-Request-Id": "r-1"}, map[string]string{"traceparent": validParent, "tracestate": "a=1,b=2", "X-Request-Id": "r-1"}},
		"a state without a parent": {map[string]string{"tracestate": "a=1"}, nil},
		"upper case":               {map[string]string{"traceparent": strings.ToUpper(validParent)}, nil},
		"version fe":               {map[string]string{"traceparent": "fe" + validParent[2:]}, map[string]string{"traceparent": "fe" + validParent[2:]}},
		"version ff":               {map[string]string{"traceparent": "ff" + validParent[2:]}, nil},
		"a zero trace id":          {map[string]string{"traceparent": "00-" + zeros + validParent[35:]}, nil},
		"a zero parent id":         {map[string]string{"traceparent": validParent[:36] + zeros[:16] + "-01"}, nil},
		"a line break":             {map[string]string{"X-Request-Id": "a\nb", "traceparent": validParent + "\n"}, nil},
		"a long id":                {map[string]string{"X-Request-Id": strings.Repeat("x", 129)}, nil},
		"a long state":             {map[string]string{"traceparent": validParent, "tracestate": strings.Repeat("x", 513)}, map[string]string{"traceparent": validParent}},
	} {
		got := TraceOf(func(name string) string { return c.in[name] })
		if !maps.Equal(got.Headers(), c.want) || (got == nil) != (c.want == nil) {
			t.Errorf("%s: %v, want %v", name, got.Headers(), c.want)
		}
	}
	attrs := (&Trace{Parent: validParent, RequestID: "r-1"}).LogAttrs()
	if len(attrs) != 2 || attrs[0].String() != "trace_id=4bf92f3577b34da6a3ce929d0e0e4736" || attrs[1].String() != "request_id=r-1" {
		t.Errorf("the log has %v", attrs)
	}
}
