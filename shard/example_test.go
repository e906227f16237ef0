package shard_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"keyfold/shard"
)

// Counting words: the keys are strings, the items line numbers. Nothing in the
// package knows that.
func ExampleRouter() {
	text := []string{
		"the window opens with the first item",
		"the window closes when the items stop",
	}
	var mu sync.Mutex
	lines := map[string][]int{}
	index := func(_ context.Context, batches []shard.Batch[string, int]) {
		mu.Lock()
		defer mu.Unlock()
		for _, b := range batches {
			lines[b.Key] = append(lines[b.Key], b.Items...)
		}
	}

	router, err := shard.New(shard.DefaultConfig(), shard.HashString, index)
	if err != nil {
		fmt.Println(err)
		return
	}
	for i, line := range text {
		var words []shard.Item[string, int]
		for word := range strings.FieldsSeq(line) {
			words = append(words, shard.Item[string, int]{Key: word, Value: i + 1, Bytes: len(word)})
		}
		if err := router.Submit(context.Background(), words); err != nil {
			fmt.Println(err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := router.Drain(ctx); err != nil {
		fmt.Println(err)
	}
	for _, word := range slices.Sorted(maps.Keys(lines)) {
		if n := len(lines[word]); n > 1 {
			fmt.Println(word, n, lines[word])
		}
	}
	// Output:
	// the 4 [1 1 2 2]
	// window 2 [1 2]
}
