// SPDX-License-Identifier: Apache-2.0

// Command aliases writes the aliases that package verbs has of the types of package
// provider, with their fields, methods and constants in the comments: go doc shows
// of an alias nothing but its comment.
//
//	go run ./test/aliases    (in the root of the module)
package main

import (
	"log"
	"os"
	"path/filepath"
)

func main() {
	log.SetFlags(0)
	files, err := Files("provider")
	if err != nil {
		log.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join("verbs", name), text, 0o644); err != nil {
			log.Fatal(err)
		}
	}
}
