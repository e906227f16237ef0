package dashboard

import (
	"fmt"
	"html/template"
	"maps"
	"regexp"
	"slices"
	"strings"

	"keyfold/internal/chart"
	"keyfold/internal/cli"
	"keyfold/service/status"
)

// partitions shows which process consumes which partition.
type partitions struct {
	SVG      template.HTML
	Sentence string
	marks    map[string]string // of owners, by address
}

var ownedPartition = regexp.MustCompile(`^keyfold_partition_owned\{partition="([0-9]{1,4})"\}$`)

// partitionsOf returns nil where no process knows of partitions. They change hands one after the
// other: for a moment one may have two owners.
func partitionsOf(processes []status.Process) *partitions {
	owners, p := map[string][]int{}, &partitions{marks: map[string]string{}} // indexes of processes by partition
	for i := range processes {
		for name, value := range processes[i].Figures {
			found := ownedPartition.FindStringSubmatch(name)
			if found == nil {
				continue
			}
			all := owners[found[1]]
			if value == 1 {
				all = append(all, i)
				p.marks[processes[i].Address] = ""
			}
			owners[found[1]] = all
		}
	}
	if len(owners) == 0 {
		return nil
	}
	hues := map[int]int{}
	for i := range processes {
		if _, owns := p.marks[processes[i].Address]; owns {
			hues[i] = len(hues)
			p.marks[processes[i].Address] = letters(hues[i])
		}
	}
	p.draw(owners, hues, processes)
	return p
}

func (p *partitions) draw(owners map[string][]int, hues map[int]int, processes []status.Process) {
	var cells []chart.Cell
	var free, shared []string
	for _, name := range slices.Sorted(maps.Keys(owners)) {
		cell := chart.Cell{Name: name}
		var marks []string
		for _, i := range owners[name] {
			cell.Hue = hues[i]
			marks = append(marks, p.marks[processes[i].Address])
		}
		cell.Mark = strings.Join(marks, "")
		switch len(marks) {
		case 0:
			free = append(free, name)
		case 1:
		default:
			shared = append(shared, name)
		}
		cells = append(cells, cell)
	}
	p.Sentence = cli.Count(int64(len(cells)), "partition") + " of " + cli.Count(int64(len(p.marks)), "worker")
	if len(free) > 0 {
		p.Sentence += "; of no process that was asked: " + strings.Join(free, " ")
	}
	if len(shared) > 0 {
		p.Sentence += "; of two: " + strings.Join(shared, " ")
	}
	p.SVG = chart.Cells{Title: p.Sentence, Cells: cells}.SVG()
}

// letters names owners: A to Z, then A1 and so on.
func letters(n int) string {
	letter := string(rune('A' + n%26))
	if n < 26 {
		return letter
	}
	return letter + fmt.Sprint(n/26)
}
