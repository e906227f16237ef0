package notify

import (
	"reflect"
	"testing"

	"keyfold/internal/testserver/must"
)

func TestArraysKeepTheirTexts(t *testing.T) {
	values, err := readAttributes([]byte(`{"segments":["vip","a \"b\"",1,["deep"],{"x":"y"},null,"vip"],"none":[]}`))
	must.OK(t, err)
	if found, want := values.Get("segments").Items, []string{"vip", `a "b"`, "vip"}; !reflect.DeepEqual(found, want) {
		t.Errorf("found %q, expected %q", found, want)
	}
	if v := values.Get("none"); v.Kind != Array || v.Items != nil {
		t.Errorf("an empty array is read as %+v", v)
	}
}
