package ledger

import "testing"

func TestPageSize(t *testing.T) {
	for _, c := range []struct {
		filter     Filter
		left, want int
	}{
		{Filter{}, 0, 256},
		{Filter{Limit: 300}, 300, 256},
		{Filter{Limit: 300}, 44, 44},
		{Filter{Page: 21}, 0, 21},
		{Filter{Page: 1000}, 0, 256},
		{Filter{Limit: 30, Page: 21}, 9, 9},
	} {
		if got := c.filter.PageSize(256, c.left); got != c.want {
			t.Errorf("%+v with %d left: %d, want %d", c.filter, c.left, got, c.want)
		}
	}
}
