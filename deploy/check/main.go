// Check compares the files of deploy/ with the schemas of the programs that read them, and prints
// what it read as JSON. It is a module of its own, so that keyfold does not depend on these programs.
//
//	go run . kubernetes FOLDER
//	go run . compose FILE [PROFILE...]
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"keyfold/deploy/check/kubernetes"

	"github.com/compose-spec/compose-go/v2/cli"
)

func main() {
	read, err := run(os.Args[1:])
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(read)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "check:", err)
		os.Exit(1)
	}
}

func run(arguments []string) (any, error) {
	switch {
	case len(arguments) == 2 && arguments[0] == "kubernetes":
		return kubernetes.Check(arguments[1])
	case len(arguments) >= 2 && arguments[0] == "compose":
		return compose(arguments[1], arguments[2:])
	}
	return nil, errors.New("usage: check kubernetes FOLDER | check compose FILE [PROFILE...]")
}

// compose returns the project of a file, as Docker Compose reads it: its schema, variables
// and profiles, and that what a service depends on is there.
func compose(file string, profiles []string) (any, error) {
	options, err := cli.NewProjectOptions([]string{file}, cli.WithProfiles(profiles), cli.WithName("keyfold"))
	if err != nil {
		return nil, err
	}
	return options.LoadProject(context.Background())
}
