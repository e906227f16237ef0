package rule

import "testing"

func TestTheShippedSetHasNoFault(t *testing.T) {
	d, faults := Read(Default())
	for _, fault := range faults {
		t.Errorf("%s", fault)
	}
	if d == nil || len(d.Rules) < 10 || len(d.Cases) < len(d.Rules) {
		t.Fatalf("read %+v", d)
	}
}
