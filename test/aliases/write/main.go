// SPDX-License-Identifier: Apache-2.0

// Command write writes the aliases of package verbs anew.
//
//	go run ./test/aliases/write    (in the root of the module)
package main

import (
	"log"
	"os"
	"path/filepath"

	"purerdma/test/aliases"
)

func main() {
	log.SetFlags(0)
	files, err := aliases.Files("provider")
	if err != nil {
		log.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join("verbs", name), text, 0o644); err != nil {
			log.Fatal(err)
		}
	}
}
