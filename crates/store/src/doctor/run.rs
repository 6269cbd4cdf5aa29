//! Where a list of rows repeats the beginning of another, found in one pass however alike its rows are.

use std::collections::HashMap;
use std::hash::Hash;

/// For each place of `within`: how many items from there on are the beginning of `list`.
pub(super) fn runs<T: PartialEq>(list: &[T], within: &[T]) -> Vec<usize> {
    let own = extended(list, list, &[]);
    extended(list, within, &own)
}

/// The Z algorithm: `own` is what this gives for `list` in itself, or nothing while just that is being found out.
fn extended<T: PartialEq>(list: &[T], within: &[T], own: &[usize]) -> Vec<usize> {
    let of_itself = own.is_empty();
    let mut found: Vec<usize> = Vec::with_capacity(within.len());
    let (mut from, mut to) = (0, 0); // the run that reaches furthest
    for place in 0..within.len() {
        let mut run = match place < to {
            true => {
                let known = if of_itself { found[place - from] } else { own[place - from] };
                known.min(to - place)
            }
            false => 0,
        };
        while place + run < within.len() && run < list.len() && list[run] == within[place + run] {
            run += 1;
        }
        let is_itself = of_itself && place == 0;
        if !is_itself && place + run > to {
            (from, to) = (place, place + run);
        }
        found.push(run);
    }
    found
}

/// Where each item stands, to be asked for the next place from somewhere on.
pub(super) struct ItemPlaces<T>(HashMap<T, Vec<usize>>);

impl<T: Hash + Eq> ItemPlaces<T> {
    pub fn of(items: impl IntoIterator<Item = T>) -> Self {
        let mut places: HashMap<T, Vec<usize>> = HashMap::new();
        items.into_iter().enumerate().for_each(|(place, item)| places.entry(item).or_default().push(place));
        Self(places)
    }

    pub fn next(&self, item: &T, from: usize) -> Option<usize> {
        let places = self.0.get(item)?;
        places.get(places.partition_point(|place| *place < from)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use throughline_complexity::assert_linear_in_count;

    proptest! {
        #[test]
        fn runs_are_what_comparing_item_by_item_finds(
            list in prop::collection::vec(0..2, 0..12),
            within in prop::collection::vec(0..2, 0..40),
        ) {
            let plain: Vec<usize> = (0..within.len())
                .map(|place| list.iter().zip(&within[place..]).take_while(|(one, other)| one == other).count())
                .collect();
            prop_assert_eq!(runs(&list, &within), plain);
        }

        #[test]
        fn the_next_place_is_what_a_search_finds(items in prop::collection::vec(0..4, 0..20), wanted in 0..5, from in 0_usize..22) {
            let plain = (from..items.len()).find(|place| items[*place] == wanted);
            prop_assert_eq!(ItemPlaces::of(items.iter().copied()).next(&wanted, from), plain);
        }
    }

    #[test]
    fn p31_rows_that_are_all_alike_cost_what_they_should() {
        assert_linear_in_count("doctor::run::runs", |count| {
            let list = [vec![1; count / 2], vec![2]].concat();
            let within = vec![1; count];
            move || _ = runs(&list, &within)
        });
        assert_linear_in_count("doctor::run::Places", |count| {
            move || {
                let places = ItemPlaces::of(vec![1; count]);
                (0..count).for_each(|from| _ = (places.next(&1, from), places.next(&2, from)));
            }
        });
    }
}
