package shard

// keyQueue is everything a shard knows of one key: its windows, oldest first, and
// whether a flush holds it. All but the last of the windows have closed. Owned
// by the shard's actor.
type keyQueue[K comparable, V any] struct {
	key        K
	head, tail *window[K, V]
	next       *keyQueue[K, V] // in the ready queue
	busy       bool            // a flush holds one of its batches
}

// push puts w behind the key's other windows.
func (k *keyQueue[K, V]) push(w *window[K, V]) {
	w.queue = k
	if k.tail == nil {
		k.head = w
	} else {
		k.tail.next = w
	}
	k.tail = w
}

// pop takes the oldest window out.
func (k *keyQueue[K, V]) pop() *window[K, V] {
	w := k.head
	k.head, w.next = w.next, nil
	if k.head == nil {
		k.tail = nil
	}
	return w
}

// window is a run of one key's items. Owned by the shard's actor until a flush
// takes it, and again when the flush is done.
type window[K comparable, V any] struct {
	queue       *keyQueue[K, V]
	next        *window[K, V] // behind it in its queue, or on the free list
	items       []V
	bytes       int64
	first, last int64   // times of its first and last item
	trigger     Trigger // 0 while it is open
	links       [2]link[K, V]
}

// link is a window's place in one of the two deadline lists.
type link[K comparable, V any] struct{ prev, next *window[K, V] }

// listIndex names the deadline lists.
type listIndex int

const (
	byFirst listIndex = iota
	byLast
)

// deadlines is a doubly linked list through the windows themselves: no allocation
// per item, and any window leaves it in constant time.
type deadlines[K comparable, V any] struct {
	front, back *window[K, V]
	order       listIndex
}

func (d *deadlines[K, V]) pushBack(w *window[K, V]) {
	w.links[d.order] = link[K, V]{prev: d.back}
	if d.back == nil {
		d.front = w
	} else {
		d.back.links[d.order].next = w
	}
	d.back = w
}

func (d *deadlines[K, V]) remove(w *window[K, V]) {
	at := w.links[d.order]
	if at.prev == nil {
		d.front = at.next
	} else {
		at.prev.links[d.order].next = at.next
	}
	if at.next == nil {
		d.back = at.prev
	} else {
		at.next.links[d.order].prev = at.prev
	}
	w.links[d.order] = link[K, V]{}
}

func (d *deadlines[K, V]) moveToBack(w *window[K, V]) {
	if d.back != w {
		d.remove(w)
		d.pushBack(w)
	}
}

// readyQueue is the ready keys in the order in which they became ready.
type readyQueue[K comparable, V any] struct{ front, back *keyQueue[K, V] }

func (q *readyQueue[K, V]) push(k *keyQueue[K, V]) {
	if q.back == nil {
		q.front = k
	} else {
		q.back.next = k
	}
	q.back = k
}

func (q *readyQueue[K, V]) pop() *keyQueue[K, V] {
	k := q.front
	q.front, k.next = k.next, nil
	if q.front == nil {
		q.back = nil
	}
	return k
}
