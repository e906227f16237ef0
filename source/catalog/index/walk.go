package index

import (
	"cmp"
	"slices"
)

func byScore(a, b scored) int {
	return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.row, b.row))
}

// walk is a search through one layer after another, and its memory.
type walk struct {
	query []float32
	reach int              // ef: how many of the best to keep
	takes func(int32) bool // whether a node may be among them; nil: every one
	open  []scored         // a heap of nodes whose links were not followed, the best first
	best  []scored         // the best first
	seen  []uint32         // by row: the round in which it was met
	round uint32
	dots  int // inner products that were taken
}

// begin prepares a search.
func (w *walk) begin(query []float32, rows int) {
	if len(w.seen) < rows {
		w.seen = make([]uint32, rows+rows/8)
		w.round = 0
	}
	w.query, w.dots, w.takes = query, 0, nil
	w.best = w.best[:0]
}

// descend leads from the entry to the best node of the layer above this one.
func (g *graph) descend(w *walk, layer int) {
	w.best = append(w.best[:0], scored{inner(w.query, g.vector(g.entry)), g.entry})
	w.reach = 1
	for i := len(g.nodes[g.entry].layers) - 1; i > layer; i-- {
		g.across(w, i, len(g.nodes))
	}
}

// across goes from the best nodes to the best of a layer. It gives up, and returns false,
// after so many inner products.
func (g *graph) across(w *walk, layer, most int) bool {
	w.enter()
	for len(w.open) > 0 {
		next := w.pop()
		if len(w.best) == w.reach && next.score < w.best[w.reach-1].score {
			return true
		}
		for _, o := range g.nodes[next.row].layers[layer].out {
			if w.seen[o.row] == w.round {
				continue
			}
			w.seen[o.row] = w.round
			w.meet(scored{inner(w.query, g.vector(o.row)), o.row})
			w.dots++
		}
		if w.dots > most {
			return false
		}
	}
	return true
}

// enter begins a layer at the best nodes of the one above.
func (w *walk) enter() {
	if w.round++; w.round == 0 {
		clear(w.seen)
		w.round = 1
	}
	from := slices.Clone(w.best)
	w.open, w.best = w.open[:0], w.best[:0]
	for _, s := range from {
		w.seen[s.row] = w.round
		w.meet(s)
	}
}

// meet takes a node unless there are enough better ones.
func (w *walk) meet(s scored) {
	full := len(w.best) == w.reach
	if full && s.score <= w.best[w.reach-1].score {
		return
	}
	w.push(s)
	if w.takes != nil && !w.takes(s.row) {
		return
	}
	if full {
		w.best = w.best[:w.reach-1]
	}
	at, _ := slices.BinarySearchFunc(w.best, s, byScore)
	w.best = slices.Insert(w.best, at, s)
}

func (w *walk) push(s scored) {
	w.open = append(w.open, s)
	h := w.open
	for i := len(h) - 1; i > 0 && h[(i-1)/2].score < h[i].score; i = (i - 1) / 2 {
		h[i], h[(i-1)/2] = h[(i-1)/2], h[i]
	}
}

func (w *walk) pop() scored {
	h, first := w.open, w.open[0]
	last := len(h) - 1
	h[0] = h[last]
	h = h[:last]
	for i := 0; ; {
		child := 2*i + 1
		if child+1 < last && h[child+1].score > h[child].score {
			child++
		}
		if child >= last || h[child].score <= h[i].score {
			break
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
	w.open = h
	return first
}
