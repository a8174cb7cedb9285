// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"sync"

	"purerdma/provider"
)

// configPool pools the configurations of objects. A provider does not retain them, but they
// escape to the heap, because the call goes through an interface.
type configPool[T any] struct{ pool sync.Pool }

var (
	cqConfigs configPool[provider.CQConfig]
	mrConfigs configPool[provider.MRConfig]
	qpConfigs configPool[provider.QPConfig]
)

// get returns a zero configuration. put follows.
func (p *configPool[T]) get() *T {
	if cfg, ok := p.pool.Get().(*T); ok {
		return cfg
	}
	return new(T)
}

func (p *configPool[T]) put(cfg *T) {
	var zero T
	*cfg = zero // it refers to the object's parents
	p.pool.Put(cfg)
}
