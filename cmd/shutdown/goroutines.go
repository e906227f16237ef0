package shutdown

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
)

// maxDump bounds the stacks that are looked at.
const maxDump = 16 << 20

// Goroutines describes what the program's own goroutines are doing, those that
// do the same counted together: their state, what they are in, and the way
// there through keyfold's own code. The caller's own is left out, and so are
// goroutines of libraries that no code of keyfold is waiting in.
func Goroutines() string {
	groups := map[string]int{}
	var order []string
	for i, block := range strings.Split(stacks(), "\n\n") {
		if i == 0 {
			continue // the caller
		}
		if text := describe(block); text != "" {
			if groups[text]++; groups[text] == 1 {
				order = append(order, text)
			}
		}
	}
	slices.SortStableFunc(order, func(a, b string) int { return groups[b] - groups[a] })
	var b strings.Builder
	for _, text := range order {
		fmt.Fprintf(&b, "%d goroutine(s) %s", groups[text], text)
	}
	return b.String()
}

// stacks returns the stacks of all goroutines, the caller's first.
func stacks() string {
	for size := 1 << 20; ; size *= 2 {
		buffer := make([]byte, size)
		if n := runtime.Stack(buffer, true); n < size || size >= maxDump {
			return string(buffer[:n])
		}
	}
}

// describe shortens one goroutine's stack, or returns "" where it has no frame
// of ours. A stack is a header, "goroutine 7 [select, 2 minutes]:", and two lines
// a frame: the function with its arguments, and its place.
func describe(block string) string {
	lines := strings.Split(strings.TrimSpace(block), "\n")
	var b strings.Builder
	_, state, _ := strings.Cut(lines[0], " [")
	b.WriteString("[" + strings.TrimSuffix(state, ":") + "\n")
	own := false
	for i := 1; i+1 < len(lines); i += 2 {
		name := function(lines[i])
		if strings.HasPrefix(lines[i], "created by ") {
			break
		}
		mine := ours(name)
		own = own || mine
		if mine || i == 1 {
			fmt.Fprintf(&b, "    %s %s\n", name, place(lines[i+1]))
		}
	}
	if !own {
		return ""
	}
	return b.String()
}

// function cuts the arguments off a frame's first line; a method's receiver is in
// brackets too.
func function(line string) string {
	if i := strings.LastIndexByte(line, '('); i > 0 {
		return line[:i]
	}
	return line
}

// place is a frame's file, without its folders, and line.
func place(line string) string {
	line, _, _ = strings.Cut(strings.TrimSpace(line), " ")
	return line[strings.LastIndexByte(line, '/')+1:]
}

// ours reports whether a function is of this module; package main goes by that
// name.
func ours(function string) bool {
	return strings.HasPrefix(function, "keyfold/") || strings.HasPrefix(function, "main.")
}
