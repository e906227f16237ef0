package shutdown

import (
	"cmp"
	"fmt"
	"path"
	"runtime/pprof"
	"strings"
)

// Goroutines describes what the program's own goroutines are doing, those with the
// same stack counted together: the functions they are in, the innermost first. The
// caller's own is left out, and so are goroutines of libraries that no code of
// keyfold is waiting in.
func Goroutines() string {
	var b strings.Builder
	if err := pprof.Lookup("goroutine").WriteTo(&b, 1); err != nil {
		return err.Error() + "\n"
	}
	return describe(b.String())
}

// Peer is a server that goroutines may wait for: in functions of this package.
type Peer struct{ Name, Package string }

// Unanswered returns the names of the servers that goroutines with events in hand wait for, as
// described by [Goroutines]; "a server" where that cannot be seen.
func Unanswered(goroutines string, servers []Peer) string {
	var names []string
	for _, s := range servers {
		for stack := range strings.SplitSeq(goroutines, " goroutine(s)\n") {
			if strings.Contains(stack, " keyfold/shard.") && strings.Contains(stack, " "+s.Package) {
				names = append(names, s.Name)
				break
			}
		}
	}
	return cmp.Or(strings.Join(names, " and "), "a server")
}

// describe shortens a profile. Its blocks are "3 @" with addresses, and a line for
// each frame, with white space between: "#", the address, the function with an
// offset, the place.
func describe(profile string) string {
	_, profile, _ = strings.Cut(profile, "\n") // "goroutine profile: total 7"
	var b strings.Builder
	for block := range strings.SplitSeq(profile, "\n\n") {
		number, frames, _ := strings.Cut(block, " @")
		var stack strings.Builder
		own := false
		for line := range strings.Lines(frames) {
			if cells := strings.Fields(line); len(cells) == 4 && cells[0] == "#" {
				name := cells[2][:strings.LastIndexByte(cells[2], '+')]
				own = own || strings.HasPrefix(name, "keyfold/") || strings.HasPrefix(name, "main.")
				fmt.Fprintf(&stack, "    %s %s\n", name, path.Base(cells[3]))
			}
		}
		if own && !strings.Contains(stack.String(), "keyfold/internal/shutdown.Goroutines ") {
			fmt.Fprintf(&b, "%s goroutine(s)\n%s", number, &stack)
		}
	}
	return b.String()
}
