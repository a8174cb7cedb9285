// SPDX-License-Identifier: Apache-2.0

// Command write writes the files of docs/api anew.
//
//	go run ./test/api/write    (in the root of the module)
package main

import (
	"log"
	"maps"
	"os"
	"path/filepath"

	"purerdma/test/api"
)

func main() {
	log.SetFlags(0)
	files := map[string][]byte{}
	for _, dir := range append([]string{"."}, api.Modules...) {
		more, err := api.Files(dir)
		if err != nil {
			log.Fatal(err)
		}
		maps.Copy(files, more)
	}
	if err := os.RemoveAll(api.Dir); err != nil {
		log.Fatal(err)
	}
	for name, text := range files {
		err := os.MkdirAll(filepath.Dir(name), 0o755)
		if err == nil {
			err = os.WriteFile(name, text, 0o644)
		}
		if err != nil {
			log.Fatal(err)
		}
	}
}
