package index

import (
	"math"
	"slices"
	"sync"

	"gonum.org/v1/gonum/blas/blas32"
)

// Parameters of the graph. The first two are M and efConstruction of Malkov and Yashunin, the
// third is alpha of Subramanya et al. (DiskANN, 2019), which keeps more links to near nodes.
const (
	degree     = 24  // links that a new node begins with; twice as many stay at layer 0
	buildReach = 150 // candidates among which they are chosen
	nearer     = 0.9 // of the distance to the node: nearer to another neighbour is near
)

// graph is a hierarchical navigable small world (Malkov and Yashunin, 2016) over the rows of
// an index. A row is in one of three states: it waits to be linked; it is a node, with links
// to near nodes in each of its layers; or it has the same vector as a node and is one of the
// node's copies, without links of its own. Catalogues have many products of one name, and a
// graph of equal points leads nowhere.
//
// Each link is known at both ends, so that a node can be taken out, and take another row, at
// the price of its own links.
type graph struct {
	vector  func(row int32) []float32
	nodes   []node // by row
	entry   int32  // a node of the highest layer, -1 where there is none
	waiting int
	cursor  int    // rows from here on were looked at for those that wait
	clock   uint32 // counts the changes of rows
	links   int64  // for [Index.Bytes]
	walks   sync.Pool
}

type node struct {
	layers  []layer // nil unless it is a node
	copies  []int32
	of      int32  // the node whose copy it is, -1 where it is none
	changed uint32 // by the graph's clock: when the row got its vector
}

type layer struct {
	out []scored // with their scores
	in  []int32
}

// scored is a row and its inner product with what is looked at.
type scored struct {
	score float32
	row   int32
}

func newGraph(vector func(int32) []float32) graph {
	return graph{vector: vector, entry: -1, walks: sync.Pool{New: func() any { return new(walk) }}}
}

func inner(a, b []float32) float32 {
	return blas32.Dot(blas32.Vector{N: len(a), Inc: 1, Data: a}, blas32.Vector{N: len(b), Inc: 1, Data: b})
}

func (g *graph) between(a, b int32) float32 { return inner(g.vector(a), g.vector(b)) }

func (g *graph) waits(row int32) bool { return g.nodes[row].layers == nil && g.nodes[row].of < 0 }

// levelOf returns the highest layer of a product's node. It follows from the id, so that the
// same changes make the same graph.
func levelOf(id int32) int {
	h := uint64(uint32(id)) + 0x9e3779b97f4a7c15 // splitmix64
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	share := (float64((h^h>>31)>>11) + 1) / (1 << 53) // above 0, at most 1
	return int(-math.Log(share) / math.Log(degree))
}

// add notes a new row, the last one.
func (g *graph) add() {
	g.clock++
	g.nodes = append(g.nodes, node{of: -1, changed: g.clock})
	g.waiting++
}

// clear lets all rows wait.
func (g *graph) clear() {
	g.clock++
	for row := range g.nodes {
		g.nodes[row] = node{of: -1, changed: g.clock}
	}
	g.entry, g.waiting, g.links = -1, len(g.nodes), 0
}

// drop takes the last row, which waits, away.
func (g *graph) drop() {
	g.nodes = g.nodes[:len(g.nodes)-1]
	g.waiting--
}

// free makes a row wait: another node takes over what it was for its copies, or its
// neighbours are linked among each other.
func (g *graph) free(row int32) {
	n := &g.nodes[row]
	switch {
	case n.of >= 0:
		g.nodes[n.of].copies = without(g.nodes[n.of].copies, row)
	case len(n.copies) > 0:
		heir := n.copies[0]
		n.copies = n.copies[1:]
		g.move(row, heir)
	case n.layers != nil:
		g.unlink(row)
	default:
		g.waiting--
	}
	g.clock++
	g.nodes[row] = node{of: -1, changed: g.clock}
	g.waiting++
}

// move gives what the row from is to the row to.
func (g *graph) move(from, to int32) {
	g.clock++
	g.nodes[to] = g.nodes[from]
	n := &g.nodes[to]
	n.changed = g.clock
	for i, l := range n.layers {
		for _, o := range l.out {
			in := g.nodes[o.row].layers[i].in
			in[slices.Index(in, from)] = to
		}
		for _, other := range l.in {
			out := g.nodes[other].layers[i].out
			out[position(out, from)].row = to
		}
	}
	for _, c := range n.copies {
		g.nodes[c].of = to
	}
	if n.of >= 0 {
		copies := g.nodes[n.of].copies
		copies[slices.Index(copies, from)] = to
	}
	if g.entry == from {
		g.entry = to
	}
	g.nodes[from] = node{of: -1, changed: g.clock}
}

func position(out []scored, row int32) int {
	return slices.IndexFunc(out, func(s scored) bool { return s.row == row })
}

// without takes one of the rows out; their order may change.
func without(rows []int32, row int32) []int32 {
	rows[slices.Index(rows, row)] = rows[len(rows)-1]
	return rows[:len(rows)-1]
}

// unlink takes a node out of all layers.
func (g *graph) unlink(row int32) {
	layers := g.nodes[row].layers
	for i := range layers {
		l := layers[i]
		g.links -= int64(len(l.out))
		for _, o := range l.out {
			g.at(o.row, i).in = without(g.at(o.row, i).in, row)
		}
		for _, other := range l.in {
			o := g.at(other, i)
			at := position(o.out, row)
			o.out = slices.Delete(o.out, at, at+1)
			g.links--
		}
		g.repair(l, i)
	}
	g.nodes[row].layers = nil
	if g.entry == row {
		g.entry = g.highest()
	}
}

func (g *graph) at(row int32, layer int) *layer { return &g.nodes[row].layers[layer] }

// highest returns a node of the highest layer.
func (g *graph) highest() int32 {
	found, most := int32(-1), 0
	for row := range g.nodes {
		if n := len(g.nodes[row].layers); n > most {
			found, most = int32(row), n
		}
	}
	return found
}

// repair links each node that has lost a link with the nearest of those that the lost node
// had links to.
func (g *graph) repair(lost layer, i int) {
	for _, row := range lost.in {
		best := scored{-2, -1}
		for _, o := range lost.out {
			if o.row == row || position(g.at(row, i).out, o.row) >= 0 {
				continue
			}
			if score := g.between(row, o.row); score > best.score {
				best = scored{score, o.row}
			}
		}
		if best.row >= 0 {
			g.both(row, best, i)
		}
	}
	for _, o := range lost.out { // each can still be reached
		if l := g.at(o.row, i); len(l.in) == 0 && len(l.out) > 0 {
			g.link(l.out[0].row, scored{l.out[0].score, o.row}, i)
		}
	}
}

// both links two nodes in both directions, where they are not linked.
func (g *graph) both(row int32, to scored, i int) {
	g.link(row, to, i)
	g.link(to.row, scored{to.score, row}, i)
	g.shrink(row, i)
	g.shrink(to.row, i)
}

func (g *graph) link(row int32, to scored, i int) {
	from := g.at(row, i)
	if position(from.out, to.row) >= 0 {
		return
	}
	from.out = append(from.out, to)
	g.at(to.row, i).in = append(g.at(to.row, i).in, row)
	g.links++
}

// shrink takes links from a node that has half as many again as it should have. It
// keeps those to nodes that few others have links to, which would be hard to find.
func (g *graph) shrink(row int32, i int) {
	l, most := g.at(row, i), degree
	if i == 0 {
		most = 2 * degree
	}
	if len(l.out) <= most+most/2 {
		return
	}
	slices.SortFunc(l.out, byScore)
	kept, rest := g.choose(l.out, most)
	for _, o := range rest {
		if in := &g.at(o.row, i).in; len(*in) > degree {
			*in = without(*in, row)
			g.links--
		} else {
			kept = append(kept, o)
		}
	}
	l.out = kept
}

// choose picks the neighbours of a node from candidates, the nearest first. Those that are
// clearly nearer to a picked one than to the node are picked last, since they are reached
// through it.
func (g *graph) choose(candidates []scored, most int) (picked, rest []scored) {
	picked = make([]scored, 0, most)
	for i, c := range candidates {
		if len(picked) == most {
			rest = append(rest, candidates[i:]...)
			break
		}
		if slices.ContainsFunc(picked, func(p scored) bool { return 1-g.between(p.row, c.row) <= nearer*(1-c.score) }) {
			rest = append(rest, c)
		} else {
			picked = append(picked, c)
		}
	}
	slices.SortFunc(rest, byScore)
	fill := min(most-len(picked), len(rest))
	return append(picked, rest[:fill]...), rest[fill:]
}
