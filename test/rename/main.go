// SPDX-License-Identifier: Apache-2.0

// Rename changes the path of the module, in go.mod, imports, documents, tests and their data,
// and in the modules below it. "make module" runs it.
//
//	go run ./test/rename host/name    (in the root of the module)
package main

import (
	"fmt"
	"log"
	"os"
	"regexp"
)

// moduleLine is the line of go.mod with the path.
var moduleLine = regexp.MustCompile(`(?m)^module (\S+)$`)

func main() {
	log.SetFlags(0)
	log.SetPrefix("rename: ")
	if len(os.Args) != 2 {
		log.Fatal("usage: go run ./test/rename host/name")
	}
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		log.Fatal(err)
	}
	line := moduleLine.FindSubmatch(mod)
	if line == nil {
		log.Fatal("go.mod: missing module path")
	}
	r, err := newRenamer(string(line[1]), os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	changed, err := r.tree(".")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s is now %s in %d files\n", r.old, r.new, len(changed))
}
