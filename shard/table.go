package shard

// table is one shard's windows: a state machine without goroutines, channels or
// a clock of its own. now never runs backwards between calls. Owned by the
// shard's actor.
type table[K comparable, V any] struct {
	policy policy
	queues map[K]*keyQueue[K, V] // every key with a window or in flight
	first  deadlines[K, V]       // open windows by first item
	last   deadlines[K, V]       // open windows by last item
	ready  readyQueue[K, V]      // keys that may be flushed now

	waiting usage            // what the open windows hold
	open    int64            // how many they are
	closed  [triggers]uint64 // windows closed so far, by trigger

	slices      slicePool[V]
	freeWindows *window[K, V]
	freeQueues  *keyQueue[K, V]
}

func newTable[K comparable, V any](c Config) *table[K, V] {
	return &table[K, V]{
		policy: newPolicy(c),
		queues: make(map[K]*keyQueue[K, V]),
		first:  deadlines[K, V]{order: byFirst},
		last:   deadlines[K, V]{order: byLast},
		slices: slicePool[V]{limit: max(1024, 2*c.MaxHeld/c.Shards)},
	}
}

// add puts one item behind its key's others. A prompt one keeps no window open.
func (t *table[K, V]) add(key K, value V, bytes, now int64, prompt bool) {
	k := t.queues[key]
	if k == nil {
		k = t.newQueue(key)
		t.queues[key] = k
	}
	w := k.tail
	if w == nil || !t.policy.collects(w.trigger, len(w.items)) {
		w = t.openWindow(k, now)
	}
	w.items = t.slices.append(w.items, value)
	w.bytes += bytes
	if w.trigger != 0 {
		return // it collects while it waits to be flushed
	}
	t.waiting.items++
	t.waiting.bytes += bytes
	if trigger := t.policy.onItem(len(w.items), prompt); trigger != 0 {
		t.fire(w, trigger)
	} else if !prompt {
		w.last = now
		t.last.moveToBack(w)
	}
}

// due returns the open window that closes next, when and why. Of two deadlines
// at one instant the idle one counts.
func (t *table[K, V]) due() (*window[K, V], int64, Trigger) {
	w := t.last.front
	if w == nil {
		return nil, never, 0
	}
	idle := t.policy.idleDeadline(w.last)
	oldest := t.first.front
	if delay := t.policy.delayDeadline(oldest.first); delay < idle {
		return oldest, delay, TriggerMaxDelay
	}
	return w, idle, TriggerIdle
}

// closeDue closes every window whose deadline is now or past, and with them those that are
// due soon: so they share a flush.
func (t *table[K, V]) closeDue(now int64) {
	if _, at, _ := t.due(); at > now {
		return
	}
	soon := now + t.policy.early
	for w, at, trigger := t.due(); at <= soon; w, at, trigger = t.due() {
		t.fire(w, trigger)
	}
}

// closeOldest closes windows, the oldest first, until the open ones hold at
// most keep.
func (t *table[K, V]) closeOldest(keep usage, trigger Trigger) {
	for t.first.front != nil && !t.waiting.within(keep) {
		t.fire(t.first.front, trigger)
	}
}

// closeAll closes every window.
func (t *table[K, V]) closeAll(trigger Trigger) {
	for t.first.front != nil {
		t.fire(t.first.front, trigger)
	}
}

// closeWhere closes the windows of some keys, the oldest first.
func (t *table[K, V]) closeWhere(key func(K) bool) {
	for w := t.first.front; w != nil; {
		next := w.links[byFirst].next
		if key(w.queue.key) {
			t.fire(w, TriggerRequest)
		}
		w = next
	}
}

// fire closes an open window and queues its key where nothing stands before it.
func (t *table[K, V]) fire(w *window[K, V], trigger Trigger) {
	t.first.remove(w)
	t.last.remove(w)
	t.open--
	t.waiting = t.waiting.minus(w.usage())
	t.closed[trigger]++
	w.trigger = trigger
	if k := w.queue; k.head == w && !k.busy {
		t.ready.push(k)
	}
}

// take appends to taken the oldest closed window of up to keys ready keys, up to
// items items but at least one window. Their keys are busy until finish.
func (t *table[K, V]) take(taken []*window[K, V], keys, items int) []*window[K, V] {
	for n := 0; n < keys && t.ready.front != nil; n++ {
		size := len(t.ready.front.head.items)
		if n > 0 && size > items {
			break
		}
		items -= size
		k := t.ready.pop()
		k.busy = true
		taken = append(taken, k.pop())
	}
	return taken
}

// finish frees the keys of windows that were flushed and forgets the windows.
func (t *table[K, V]) finish(taken []*window[K, V]) {
	for _, w := range taken {
		k := w.queue
		k.busy = false
		switch {
		case k.head == nil:
			delete(t.queues, k.key)
			t.freeQueue(k)
		case k.head.trigger != 0:
			t.ready.push(k)
		}
		t.freeWindow(w)
	}
}

func (t *table[K, V]) openWindow(k *keyQueue[K, V], now int64) *window[K, V] {
	w := t.freeWindows
	if w == nil {
		w = new(window[K, V])
	} else {
		t.freeWindows, w.next = w.next, nil
	}
	w.first, w.last = now, now
	k.push(w)
	t.first.pushBack(w)
	t.last.pushBack(w)
	t.open++
	return w
}

func (t *table[K, V]) freeWindow(w *window[K, V]) {
	t.slices.put(w.items)
	*w = window[K, V]{next: t.freeWindows}
	t.freeWindows = w
}

func (t *table[K, V]) newQueue(key K) *keyQueue[K, V] {
	k := t.freeQueues
	if k == nil {
		k = new(keyQueue[K, V])
	} else {
		t.freeQueues, k.next = k.next, nil
	}
	k.key = key
	return k
}

func (t *table[K, V]) freeQueue(k *keyQueue[K, V]) {
	*k = keyQueue[K, V]{next: t.freeQueues}
	t.freeQueues = k
}

func (w *window[K, V]) usage() usage {
	return usage{items: int64(len(w.items)), bytes: w.bytes}
}
