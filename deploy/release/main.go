// Command release makes the files of a release: for each target an archive with the
// static programs, their pages and the examples, beside it a list of the modules in
// the programs (an SBOM), and SHA256SUMS with the checksums of all of them. Clones
// of the same commit give the same bytes with the same version and release of Go.
//
//	go run ./deploy/release --version v1.2.3 --out dist
package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
)

type cli struct {
	Version string   `required:"" help:"The programs' version."`
	Out     string   `default:"dist" type:"path" help:"Folder of the files."`
	Root    string   `default:"." type:"path" help:"Root of the source tree."`
	Targets []string `default:"linux/amd64,linux/arm64,darwin/amd64,darwin/arm64" help:"Operating systems and processors."`
	// Programs is a flag for the tests, which build a small one.
	Programs []string `default:"./cmd/keyfold,./cmd/keyfold-lite" help:"Packages of the programs."`
}

func main() {
	var c cli
	kong.Parse(&c, kong.Name("release"), kong.Description("Make the files of a release."))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := c.run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop was called
	}
}

func (c *cli) run(ctx context.Context, w io.Writer) error {
	if err := os.MkdirAll(c.Out, 0o755); err != nil {
		return err
	}
	sums := map[string][sha256.Size]byte{}
	for _, target := range c.Targets {
		system, processor, found := strings.Cut(target, "/")
		if !found {
			return fmt.Errorf("the target %q is not of the form linux/amd64", target)
		}
		files, err := c.files(ctx, system, processor)
		if err != nil {
			return fmt.Errorf("%s: %w", target, err)
		}
		for name, content := range files {
			if err := os.WriteFile(filepath.Join(c.Out, name), content, 0o644); err != nil {
				return err
			}
			sums[name] = sha256.Sum256(content)
			fmt.Fprintf(w, "%10d  %s\n", len(content), filepath.Join(c.Out, name))
		}
	}
	return os.WriteFile(filepath.Join(c.Out, "SHA256SUMS"), sumsFile(sums), 0o644)
}

// files returns the files of one target by name: the archive and its SBOM.
func (c *cli) files(ctx context.Context, system, processor string) (map[string][]byte, error) {
	programs, err := c.build(ctx, system, processor)
	if err != nil {
		return nil, err
	}
	pages, err := c.pages()
	if err != nil {
		return nil, err
	}
	name := strings.Join([]string{"keyfold", c.Version, system, processor}, "_")
	archived, err := archive(name, append(programs, pages...))
	if err != nil {
		return nil, err
	}
	listed, err := sbom(c.Version, programs)
	return map[string][]byte{name + ".tar.gz": archived, name + ".cdx.json": listed}, err
}

// sumsFile returns the file that `sha256sum --check` reads.
func sumsFile(sums map[string][sha256.Size]byte) []byte {
	var lines []string
	for name, sum := range sums {
		lines = append(lines, fmt.Sprintf("%x  %s\n", sum, name))
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[2*sha256.Size:], b[2*sha256.Size:]) })
	return []byte(strings.Join(lines, ""))
}
