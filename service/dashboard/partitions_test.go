package dashboard

import (
	"fmt"
	"strings"
	"testing"
)

// Each partition has the mark of its owner, which stands in the owner's row, too; one without an owner
// and one with two are said.
func TestPartitionsByOwner(t *testing.T) {
	r := quiet(90)
	of := func(process, first, last int, owned float64) {
		for i := first; i <= last; i++ {
			r.Processes[process].Figures[fmt.Sprintf(`keyfold_partition_owned{partition="%02d"}`, i)] = owned
		}
	}
	s := guarded(t, shownAs(t, Config{}, Sources{}, r), onLoopback())
	if _, page := get(t, s, "/workers"); strings.Contains(page, "Partitions</h2>") {
		t.Error("without partitions there is a picture of them")
	}
	of(0, 0, 15, 0)
	of(2, 0, 15, 0)
	of(0, 0, 7, 1)
	of(2, 7, 14, 1)
	s = guarded(t, shownAs(t, Config{}, Sources{}, r), onLoopback())
	_, page := get(t, s, "/workers")
	for _, want := range []string{
		">00 A</text>", ">06 A</text>", ">07 AB</text>", ">08 B</text>", ">15</text>", "5 A</td>", "5 B</td>",
		"16 partitions of 2 workers; of no process that was asked: 15; of two: 07",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %s in %s", want, page)
		}
	}
	if n := strings.Count(page, "<rect"); n != 16 {
		t.Errorf("%d cells", n)
	}
	r.Processes[1].Figures[`keyfold_partition_owned{partition="<script>"}`] = 1 // another program's
	if p := partitionsOf(r.Processes); strings.Contains(string(p.SVG), "script") || letters(0) != "A" || letters(25) != "Z" || letters(53) != "B2" {
		t.Errorf("%s", p.SVG)
	}
}
