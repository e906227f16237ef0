package index

import (
	"runtime"
	"slices"
)

// linkBatch is how many rows are linked while searches wait.
const linkBatch = 8

// plan is how a row will be linked.
type plan struct {
	row   int32
	began uint32     // by the graph's clock
	same  int32      // a node of the same vector, -1 where none was found
	near  [][]scored // by layer: the neighbours
}

// find makes the plan of a row that waits. It changes nothing.
func (g *graph) find(row int32, level int) plan {
	p := plan{row: row, began: g.clock, same: -1, near: make([][]scored, level+1)}
	if g.entry < 0 {
		return p
	}
	w := g.walks.Get().(*walk)
	defer g.walks.Put(w)
	w.begin(g.vector(row), len(g.nodes))
	g.descend(w, level)
	w.reach = buildReach
	for i := min(level, len(g.nodes[g.entry].layers)-1); i >= 0; i-- {
		g.across(w, i, len(g.nodes))
		p.near[i], _ = g.choose(w.best, degree)
	}
	for _, s := range w.best[:min(3, len(w.best))] {
		if slices.Equal(g.vector(s.row), w.query) {
			p.same = s.row
		}
	}
	return p
}

// connect follows a plan, as far as it is of rows that are what they were.
func (g *graph) connect(p plan) {
	valid := func(row int32) bool {
		return int(row) < len(g.nodes) && g.nodes[row].changed <= p.began && g.nodes[row].layers != nil
	}
	if int(p.row) >= len(g.nodes) || g.nodes[p.row].changed > p.began || !g.waits(p.row) {
		return
	}
	if p.same >= 0 && valid(p.same) {
		g.nodes[p.row].of = p.same
		g.nodes[p.same].copies = append(g.nodes[p.same].copies, p.row)
		g.waiting--
		return
	}
	for i := range p.near {
		p.near[i] = slices.DeleteFunc(p.near[i], func(s scored) bool { return !valid(s.row) })
	}
	if g.entry >= 0 && len(p.near[0]) == 0 {
		return // it waits for another plan
	}
	g.waiting--
	g.nodes[p.row].layers = make([]layer, len(p.near))
	for i, near := range p.near {
		for _, s := range near {
			g.both(p.row, s, i)
		}
	}
	if g.entry < 0 || len(p.near) > len(g.nodes[g.entry].layers) {
		g.entry = p.row
	}
}

// next returns some rows that wait, few while there are few nodes to link them with.
func (g *graph) next() (rows []int32) {
	most := min(linkBatch, 1+(len(g.nodes)-g.waiting)/100, g.waiting)
	for range g.nodes {
		if len(rows) == most {
			break
		}
		if g.cursor++; g.cursor >= len(g.nodes) {
			g.cursor = 0
		}
		if g.waits(int32(g.cursor)) {
			rows = append(rows, int32(g.cursor))
		}
	}
	return rows
}

// startLinking makes sure that rows that wait are linked, where there are enough products
// for a graph. The caller holds the lock.
func (x *Index) startLinking() {
	for len(x.items) > x.exact && x.graph.waiting > 0 && x.linkers < max(1, runtime.GOMAXPROCS(0)/2) {
		x.linkers++
		go x.linkAll()
	}
}

// linkAll links until no row waits. Searches run while it looks for neighbours.
func (x *Index) linkAll() {
	var plans []plan
	for {
		rows := x.follow(plans)
		if len(rows) == 0 {
			return
		}
		plans = plans[:0]
		for _, row := range rows {
			x.mu.RLock()
			if int(row) < len(x.items) && x.graph.waits(row) {
				plans = append(plans, x.graph.find(row, levelOf(x.items[row].ID)))
			}
			x.mu.RUnlock()
		}
	}
}

// follow follows plans, and returns the rows that are next; none ends the goroutine.
func (x *Index) follow(plans []plan) (rows []int32) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, p := range plans {
		x.graph.connect(p)
	}
	if len(x.items) > x.exact {
		rows = x.graph.next()
	}
	if len(rows) == 0 {
		x.linkers--
	}
	return rows
}

// Waiting returns how many products are not linked yet: searches look at each of them.
func (x *Index) Waiting() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if len(x.items) <= x.exact {
		return 0
	}
	return x.graph.waiting
}
