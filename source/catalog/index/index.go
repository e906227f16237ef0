package index

import (
	"iter"
	"slices"
	"sync"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// exactRows is up to how many products the search takes every inner product.
const exactRows = 5_000

// turn is how long changes hold the lock before they let searches run.
const turn = time.Millisecond

// blockRows is how many vectors one allocation holds: 3 MiB of 1536 components, so that a
// catalogue grows without being copied.
const blockRows = 512

// Item is a product without its vector.
type Item struct {
	ID       int32
	Name     string
	Category string
}

// Index is a catalogue in memory: a unit vector of float32, its code and an [Item] for each
// product. It is safe for concurrent use. A change waits for the searches that run, and what
// it did is right in every later search.
type Index struct {
	dimensions int
	model      string
	exact      int // exactRows and
	candidates int // candidates; fewer in tests

	mu         sync.RWMutex
	items      []Item           // by row
	categories []int32          // by row: the number of its category
	blocks     [][]float32      // of blockRows rows each
	rows       map[int32]int32  // by product id
	numbers    map[string]int32 // of categories
	counts     []int            // of products, by the number of the category
	coder      coder
	codes      [2][]uint64 // by row: the first half of each code, and the second
	ranks      sync.Pool
}

// New returns an empty index for vectors of so many components that this model made.
func New(dimensions int, model string) *Index {
	return &Index{
		dimensions: dimensions, model: model, exact: exactRows, candidates: candidates, rows: map[int32]int32{}, numbers: map[string]int32{},
		coder: newCoder(dimensions), ranks: sync.Pool{New: func() any { return new(rank) }},
	}
}

// change does something for each of n changes. It holds the lock, and lets searches run now
// and then.
func (x *Index) change(n int, do func(i int)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	began := time.Now()
	for i := range n {
		if time.Since(began) > turn {
			x.mu.Unlock()
			x.mu.Lock()
			began = time.Now()
		}
		do(i)
	}
}

// Put adds products, and replaces those with the same ids. A product whose vector is not
// usable or of another model cannot be found: it is taken out, and counted in the answer.
// The index keeps no vector of a product.
func (x *Index) Put(products ...profile.Product) (unusable int) {
	units, codes := make([][]float64, len(products)), make([][]uint64, len(products))
	for i := range products {
		if p := &products[i]; p.Model == "" || p.Model == x.model {
			units[i], _ = engine.Unit(p.Vector, x.dimensions) // one that cannot be used is none
			codes[i] = x.coder.code(units[i])                 // before searches are kept waiting
		}
	}
	x.change(len(products), func(i int) {
		p := &products[i]
		if units[i] == nil {
			unusable++
			x.remove(p.ID)
			return
		}
		x.put(Item{p.ID, p.Name, p.Category}, units[i], codes[i])
	})
	return unusable
}

func (x *Index) put(item Item, unit []float64, code []uint64) {
	row, known := x.rows[item.ID]
	if !known {
		row = int32(len(x.items))
		x.rows[item.ID] = row
		x.items, x.categories = append(x.items, Item{}), append(x.categories, 0)
		if int(row)/blockRows == len(x.blocks) {
			x.blocks = append(x.blocks, make([]float32, blockRows*x.dimensions))
		}
		for half := range x.codes {
			x.codes[half] = append(x.codes[half], code[half*len(code)/2:(half+1)*len(code)/2]...)
		}
	} else {
		x.counts[x.categories[row]]--
	}
	number := x.number(item.Category)
	x.counts[number]++
	x.items[row], x.categories[row] = item, number
	copy(x.code(0, row), code)
	copy(x.code(1, row), code[len(code)/2:])
	for i, component := range unit {
		x.row(row)[i] = float32(component)
	}
}

// number returns the number of a category.
func (x *Index) number(category string) int32 {
	number, known := x.numbers[category]
	if !known {
		number = int32(len(x.numbers))
		x.numbers[category], x.counts = number, append(x.counts, 0)
	}
	return number
}

// row returns the vector of a row.
func (x *Index) row(row int32) []float32 {
	at := int(row) % blockRows * x.dimensions
	return x.blocks[row/blockRows][at : at+x.dimensions]
}

// code returns a half of the code of a row.
func (x *Index) code(half int, row int32) []uint64 {
	words := x.coder.words() / 2
	return x.codes[half][int(row)*words : int(row+1)*words]
}

// Remove takes products out. Ids that it does not have are skipped.
func (x *Index) Remove(ids ...int32) {
	x.change(len(ids), func(i int) { x.remove(ids[i]) })
}

// remove puts the last row in the product's place.
func (x *Index) remove(id int32) {
	row, known := x.rows[id]
	if !known {
		return
	}
	last := int32(len(x.items) - 1)
	x.counts[x.categories[row]]--
	if row != last {
		copy(x.row(row), x.row(last))
		copy(x.code(0, row), x.code(0, last))
		copy(x.code(1, row), x.code(1, last))
		x.items[row], x.categories[row] = x.items[last], x.categories[last]
		x.rows[x.items[row].ID] = row
	}
	delete(x.rows, id)
	x.items[last] = Item{}
	x.items, x.categories = x.items[:last], x.categories[:last]
	for half, codes := range x.codes {
		x.codes[half] = codes[:int(last)*x.coder.words()/2]
	}
	if int(last)%blockRows == 0 {
		x.blocks = slices.Delete(x.blocks, len(x.blocks)-1, len(x.blocks))
	}
}

// Keep takes out all products but these.
func (x *Index) Keep(ids map[int32]bool) {
	var gone []int32
	x.mu.RLock()
	for row := range x.items {
		if id := x.items[row].ID; !ids[id] {
			gone = append(gone, id)
		}
	}
	x.mu.RUnlock()
	x.Remove(gone...)
}

// Fill puts all products of a stream in and takes out all others. After an error of the
// stream the index has what was read, beside what it had.
func (x *Index) Fill(products iter.Seq2[profile.Product, error]) (unusable int, err error) {
	const chunk = 256
	seen, some := map[int32]bool{}, make([]profile.Product, 0, chunk)
	for p, err := range products {
		if err != nil {
			return unusable + x.Put(some...), err
		}
		seen[p.ID] = true
		p.Vector = slices.Clone(p.Vector) // the stream may use it again
		if some = append(some, p); len(some) == chunk {
			unusable += x.Put(some...)
			some = some[:0]
		}
	}
	unusable += x.Put(some...)
	x.Keep(seen)
	return unusable, nil
}

// Len returns the number of products that can be found.
func (x *Index) Len() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.items)
}

// Bytes returns about how much memory the index takes.
func (x *Index) Bytes() int64 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	const perItem = 36 + 4 + 24 + 40 // item, category, row by id, and texts of usual lengths
	return int64(len(x.blocks))*blockRows*int64(x.dimensions)*4 + int64(cap(x.codes[0])+cap(x.codes[1]))*8 + int64(len(x.items))*perItem
}

// Item returns a product without its vector, or false.
func (x *Index) Item(id int32) (Item, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	row, known := x.rows[id]
	if !known {
		return Item{}, false
	}
	return x.items[row], true
}

// Product returns a product and its unit vector, a copy, or false.
func (x *Index) Product(id int32) (Item, []float64, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	row, known := x.rows[id]
	if !known {
		return Item{}, nil, false
	}
	return x.items[row], wide(x.row(row)), true
}

// Cosine returns a product without its vector, and the inner product of its unit vector and a
// query, or false.
func (x *Index) Cosine(id int32, query []float64) (Item, float64, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	row, known := x.rows[id]
	if !known || len(query) != x.dimensions {
		return Item{}, 0, false
	}
	return x.items[row], dot(query, x.row(row)), true
}

func wide(narrow []float32) []float64 {
	v := make([]float64, len(narrow))
	for i, component := range narrow {
		v[i] = float64(component)
	}
	return v
}
