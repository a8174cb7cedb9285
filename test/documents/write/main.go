// SPDX-License-Identifier: Apache-2.0

// Command write writes the generated parts of the documents anew.
//
//	go run ./test/documents/write    (in the root of the module)
package main

import (
	"log"
	"os"

	"purerdma/test/documents"
)

func main() {
	log.SetFlags(0)
	files, err := documents.Files(".")
	if err != nil {
		log.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			log.Fatal(err)
		}
	}
}
