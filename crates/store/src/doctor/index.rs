//! Whether every message can be found.

use super::{Finding, FindingKind, Look, Mended, ROWS_MAX, Remedy, counted};
use crate::fault::StoreFault;
use throughline_hermes::schema::INDEXED_TEXT;

impl Look<'_> {
    pub(super) fn index(&self) -> Result<Vec<Finding>, StoreFault> {
        let mut evidence = Vec::new();
        let mut rows = Vec::new();
        for table in self.reader.variants.indexes() {
            let missing = self.absent(table)?;
            let surplus = self.surplus(table)?;
            if !missing.is_empty() {
                evidence.push(format!("{} cannot be found in {table}", counted(missing.len(), "message")));
            }
            if !surplus.is_empty() {
                evidence
                    .push(format!("{table} knows {} that are not there", counted(surplus.len(), "message")));
            }
            rows.extend(missing.iter().chain(&surplus).take(ROWS_MAX));
        }
        if evidence.is_empty() {
            return Ok(Vec::new());
        }
        let does = "what is missing is indexed, and what is not there is taken out; no message is touched";
        let remedy = Remedy::Repair(does.to_owned());
        Ok(vec![Finding { kind: FindingKind::IndexOutOfStep, sessions: Vec::new(), rows, evidence, remedy }])
    }

    fn absent(&self, table: &str) -> Result<Vec<i64>, StoreFault> {
        self.numbers(&format!(
            "SELECT m.id FROM messages m LEFT JOIN {table}_docsize d ON d.id = m.id
             WHERE d.id IS NULL AND m.id NOT IN (SELECT id FROM tl_unindexed)"
        ))
    }

    fn surplus(&self, table: &str) -> Result<Vec<i64>, StoreFault> {
        self.numbers(&format!(
            "SELECT d.id FROM {table}_docsize d LEFT JOIN messages m ON m.id = d.id WHERE m.id IS NULL"
        ))
    }

    fn numbers(&self, sql: &str) -> Result<Vec<i64>, StoreFault> {
        let mut statement = self.reader.conn.prepare_cached(sql)?;
        let numbers = statement.query_map([], |row| row.get(0))?;
        Ok(numbers.collect::<rusqlite::Result<_>>()?)
    }

    pub(super) fn put_in_step(&self) -> Result<Mended, StoreFault> {
        let conn = &self.reader.conn;
        let mut count = 0;
        for table in self.reader.variants.indexes() {
            let sql = format!(
                "INSERT INTO {table}(rowid, content) SELECT id, {INDEXED_TEXT} FROM messages WHERE id = ?1"
            );
            for row in self.absent(table)? {
                count += conn.prepare_cached(&sql)?.execute([row])?;
            }
            let sql = format!("DELETE FROM {table} WHERE rowid = ?1");
            for row in self.surplus(table)? {
                conn.prepare_cached(&sql)?.execute([row])?;
                count += 1;
            }
        }
        Ok(match count {
            0 => Mended::Unneeded,
            _ => Mended::Done("every message can be found".to_owned()),
        })
    }
}
